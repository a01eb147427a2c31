// What tests of LLM answers share: an answer read in pieces.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "wire/llm/llm_answer.h"

namespace gpulens {

struct ReadAnswer {
  LlmAnswer answer;
  std::string out;            // all that was passed on and released
  std::string before_settle;  // what had been passed on when the answer was to be settled
  bool settled_in_feed = false;
  int settles = 0, first_tokens = 0;
  uint64_t stripped = 0;
};

// Feeds `body` in pieces of `piece` bytes, each in a buffer of its own, and releases what is held at the
// step that settles.
inline ReadAnswer ReadInPieces(const LlmAnswerOptions& options, std::string_view body, size_t piece) {
  LlmAnswerReader reader(options);
  ReadAnswer read;
  const auto take = [&](const LlmAnswerStep& step, bool feeding) {
    for (const std::string_view bytes : step.pass) read.out += bytes;
    read.first_tokens += step.first_token;
    if (!step.settle) return;
    ++read.settles;
    read.settled_in_feed = feeding;
    read.before_settle = read.out;
    read.out += reader.Release();
  };
  for (size_t at = 0; at < body.size(); at += piece) {
    const std::string copy(body.substr(at, piece));
    take(reader.Feed(copy), true);
  }
  take(reader.Finish(), false);
  read.answer = reader.answer();
  read.stripped = reader.bytes_stripped();
  return read;
}

}  // namespace gpulens

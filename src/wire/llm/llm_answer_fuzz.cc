// Whatever an upstream sends, in whatever shape and pieces: the bytes that go on are those that came, but
// what was cut out; where it is cut changes nothing; no unit is negative.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "wire/llm/llm_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  if (size < 2) return 0;
  LlmAnswerOptions options;
  options.shape = static_cast<LlmShape>(data[0] % 8);
  options.framing = static_cast<LlmFraming>(data[0] / 8 % 4);
  options.strip_usage = data[0] & 32;
  options.reasoning_besides = data[0] & 64;
  options.max_event_bytes = data[0] & 128 ? 1 << 20 : 512;
  options.choices = data[1] / 64 + 1;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  const ReadAnswer whole = ReadInPieces(options, body, body.size() + 1);
  const ReadAnswer pieces = ReadInPieces(options, body, data[1] % 32 + 1);
  for (const ReadAnswer* read : {&whole, &pieces}) {
    CHECK(read->settles == 1 && read->first_tokens <= 1);
    CHECK(read->out.size() + read->stripped == body.size());
    if (!options.strip_usage) CHECK(read->out == body);
    CHECK(read->out.starts_with(read->before_settle));
    if (!read->answer.usage) continue;
    for (const int64_t units : read->answer.usage->units) CHECK(units >= 0);
  }
  CHECK(whole.out == pieces.out);
  CHECK(whole.answer.usage == pieces.answer.usage && whole.answer.model == pieces.answer.model);
  CHECK(whole.answer.ended == pieces.answer.ended && whole.answer.error == pieces.answer.error);
  CHECK(whole.answer.content_bytes == pieces.answer.content_bytes &&
        whole.answer.events == pieces.answer.events);
  CHECK(whole.answer.finish_reasons == pieces.answer.finish_reasons);
  // What was cut out is gone: reading the rest again cuts nothing.
  if (options.strip_usage && whole.answer.events_bad == 0 && !whole.answer.gave_up) {
    const ReadAnswer again = ReadInPieces(options, whole.out, whole.out.size() + 1);
    CHECK(again.out.size() + again.stripped == whole.out.size());
  }
  return 0;
}

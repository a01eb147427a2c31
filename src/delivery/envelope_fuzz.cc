// Any bytes as a record of a log: the envelope is cut off, nothing else, and what was written is read back.
#include "delivery/record.h"

#include <cstdio>
#include <cstdlib>

namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  const std::string record(reinterpret_cast<const char*>(data), size);
  std::string_view body = record;
  const auto envelope = TakeEnvelope(body);
  if (!envelope) {
    Require(body == record, "nothing is cut off");
    return 0;
  }
  const size_t cut = record.size() - body.size();
  Require(std::string_view(record).substr(cut) == body, "the rest");
  const bool old = data[0] < 0x80;
  Require(cut == (old ? 1 : 8), "the envelope alone");
  if (old)
    Require(envelope->source == 0 && envelope->key == 0 && !envelope->alone, "as version 0.1.0 meant it");
  std::string written;
  WriteEnvelope(*envelope, body, written);
  std::string_view again = written;
  const auto read = TakeEnvelope(again);
  Require(read && again == body, "read back");
  Require(read->kind == envelope->kind && read->source == envelope->source && read->key == envelope->key &&
              read->alone == envelope->alone,
          "the same envelope");
  return 0;
}

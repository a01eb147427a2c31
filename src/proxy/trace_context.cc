#include "proxy/trace_context.h"

#include <algorithm>

#include "base/text.h"

namespace gpulens::proxy {
namespace {

// version-trace_id-span_id-flags
constexpr size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53, kBytes = 55;

bool IsLowerHex(char c) noexcept { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

template <class Id>
bool ReadId(std::string_view digits, Id& out) noexcept {
  return std::ranges::all_of(digits, IsLowerHex) &&
         FromHex(digits, reinterpret_cast<char*>(out.data()), out.size()) &&
         std::ranges::any_of(out, [](uint8_t byte) { return byte != 0; });
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) noexcept {
  if (text.size() < kBytes) return std::nullopt;
  const std::string_view version = text.substr(0, 2), flags = text.substr(kFlagsAt, 2);
  if (!std::ranges::all_of(version, IsLowerHex) || version == "ff") return std::nullopt;
  if (text.size() > kBytes && (version == "00" || text[kBytes] != '-')) return std::nullopt;
  for (size_t dash : {kTraceAt - 1, kSpanAt - 1, kFlagsAt - 1}) {
    if (text[dash] != '-') return std::nullopt;
  }
  TraceContext out;
  if (!ReadId(text.substr(kTraceAt, 32), out.trace_id)) return std::nullopt;
  if (!ReadId(text.substr(kSpanAt, 16), out.span_id)) return std::nullopt;
  if (!std::ranges::all_of(flags, IsLowerHex)) return std::nullopt;
  out.flags = static_cast<uint8_t>(HexDigit(flags[1]) & (TraceContext::kSampled | TraceContext::kRandom));
  return out;
}

void AppendTraceparent(std::string& out, const TraceContext& context) {
  const auto append = [&](const auto& id) {
    AppendHex(out, {reinterpret_cast<const char*>(id.data()), id.size()});
  };
  out += "00-";
  append(context.trace_id);
  out += '-';
  append(context.span_id);
  out += '-';
  append(std::array<uint8_t, 1>{context.flags});
}

}  // namespace gpulens::proxy

// Bytes as lines of a kernel log: whatever they are, what is made of them keeps its promises.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/parse.h"
#include "base/text.h"
#include "sources/kernel_log/parse/log_line.h"
#include "sources/kernel_log/parse/notice.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens;
  using namespace gpulens::kernel_log;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string scratch;
  LogLine line;
  NoticeReader notices;
  static_cast<void>(ParseKmsgRecord(rest, scratch, line));
  while (!rest.empty()) {
    std::string_view text = TakeUntil(rest, '\n');
    if (!ParseLogLine(text, scratch, line)) {
      line.text = text;  // the message parser alone
    } else {
      CHECK(line.text.size() <= kMaxLine);
      CHECK(line.stamp_ns >= 0 || line.stamp == LogLine::Stamp::kUnix);
    }
    std::string clean = CleanText(line.text);
    CHECK(clean.size() <= 1000);
    for (char c : clean) CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
    auto notice = notices.Read(line.text);
    if (!notice) continue;
    if (notice->kind == NoticeKind::kXid) CHECK(notice->pci && *notice->code >= 1 && *notice->code <= 4095);
    if (notice->kind == NoticeKind::kSxid) CHECK(notice->pci && *notice->code >= 1);
    if (notice->kind == NoticeKind::kGpuLost) CHECK(notice->pci.has_value());
    if (notice->kind == NoticeKind::kDriverFault) CHECK(!notice->facts.empty());
    if (notice->pid) CHECK(*notice->pid >= 0);
    if (notice->pci) CHECK(*ParsePciAddress(notice->pci->ToString()) == *notice->pci);
    CHECK(notice->process.size() <= 64 && notice->cgroup.size() <= 512);
  }
  return 0;
}

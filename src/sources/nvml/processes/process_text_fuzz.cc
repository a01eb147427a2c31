// Any bytes as the files of a process: the values parsed are well-formed and in range.
#include <cstdlib>

#include "sources/nvml/processes/process_table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpulens::nvml;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto inside = [&](std::string_view part) {
    if (!part.empty() && (part.data() < text.data() || part.data() + part.size() > text.data() + text.size()))
      std::abort();
  };
  static_cast<void>(ReadStatLine(text));
  static_cast<void>(ReadUid(text));
  CgroupNames names = ReadCgroupNames(text);
  inside(names.container_id);
  inside(names.pod_uid);
  if (!names.container_id.empty() && names.container_id.size() != 64) std::abort();
  if (!names.pod_uid.empty() && PodUid(names.pod_uid).find('_') != std::string::npos) std::abort();
  inside(FindUserName(text, size > 0 ? data[0] : 0));
  return 0;
}

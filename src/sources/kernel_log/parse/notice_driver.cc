// Messages without a code: a module, a library or an engine of a GPU fails. Each has a row in the table of
// messages (src/catalog/codes/ras.tsv), which says how bad it is.

#include <algorithm>

#include "base/parse.h"
#include "sources/kernel_log/parse/notice_parts.h"

namespace gpulens::kernel_log {
namespace {

constexpr size_t kMaxComm = 64;

bool Contains(std::string_view text, std::string_view part) noexcept {
  return text.find(part) != std::string_view::npos;
}

// "nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing".
bool IsPeermem(std::string_view message) noexcept {
  bool module = message.starts_with("nvidia-peermem") || message.starts_with("nvidia_peermem");
  return module && Contains(message, "ERROR detected invalid context");
}

// "pt_main_thread[2536443]: segfault at 7f797fe00000 ip … error 4 in libnccl.so.2[7f7c7ac00000+d3d3000]".
bool TakeSegfault(std::string_view message, Notice& out) noexcept {
  size_t mark = message.find("]: segfault at ");
  if (mark == std::string_view::npos || !Contains(message.substr(mark), " in libnccl.so")) return false;
  std::string_view front = message.substr(0, mark);
  size_t open = front.rfind('[');
  if (open == std::string_view::npos || open > kMaxComm) return false;
  out.pid = ParseInt<int64_t>(front.substr(open + 1));
  if (!out.pid || *out.pid <= 0) return false;
  out.process = front.substr(0, open);
  return true;
}

// "… for process python3 pid 1234 thread …" and "… Process python3 pid 1234 thread …".
void TakeFaultingProcess(std::string_view text, Notice& out) noexcept {
  auto rest = After(text, "rocess ");
  auto behind = rest ? After(*rest, " pid ") : std::nullopt;
  if (!behind) return;
  std::string_view name = rest->substr(0, rest->find(" pid "));
  out.pid = TakeNumber<int64_t>(*behind);
  if (out.pid && *out.pid <= 0) out.pid.reset();
  if (name.size() <= kMaxComm) out.process = Trim(name);
}

// "amdgpu 0000:c1:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3", of older kernels
// "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout, …"; "amdgpu 0000:c1:00.0: amdgpu: [gfxhub0]
// no-retry page fault (src_id:0 ring:24 vmid:3 pasid:32770, for process python3 pid 1234 thread …)".
bool TakeAmdgpu(std::string_view message, Notice& out) noexcept {
  bool device = message.starts_with("amdgpu "), drm = message.starts_with("[drm:amdgpu_job_timedout");
  if (!device && !drm) return false;
  auto ring = After(message, " ring ");
  bool timeout = ring && Contains(ring->substr(0, 64), " timeout");
  bool page_fault = device && Contains(message, "hub") && Contains(message, " page fault (");
  if (!timeout && !page_fault) return false;
  out.driver = "amdgpu";
  out.facts = timeout ? "amdgpu.ring_timeout" : "amdgpu.page_fault";
  if (page_fault) TakeFaultingProcess(message, out);
  if (!device) return true;
  std::string_view rest = message;
  TakeUntil(rest, ' ');
  std::string_view word = TakeUntil(rest, ' ');
  if (!word.ends_with(':')) return false;
  out.pci = ParsePciAddress(word.substr(0, word.size() - 1));
  return out.pci.has_value();
}

// "NVRM: GPU 0000:3b:00.0: RmInitAdapter failed! (0x62:0x40:2393)", of older drivers without the GPU.
bool TakeInitFailed(std::string_view message, Notice& out) noexcept {
  if (!message.starts_with("NVRM: ") || !Contains(message, "RmInitAdapter failed")) return false;
  if (auto gpu = After(message, "GPU ")) {
    std::string_view word = gpu->substr(0, gpu->find(' '));
    while (word.ends_with(':')) word.remove_suffix(1);
    out.pci = ParsePciAddress(word);
  }
  return true;
}

}  // namespace

std::optional<Notice> ParseDriverFault(std::string_view message) {
  Notice out;
  out.kind = NoticeKind::kDriverFault;
  if (TakeInitFailed(message, out)) {
    out.driver = "nvidia";
    out.facts = "nvidia.init_failed";
    return out;
  }
  if (IsPeermem(message)) {
    out.driver = "nvidia";
    out.facts = "nvidia.peermem_context";
    return out;
  }
  if (TakeSegfault(message, out)) {
    out.facts = "nccl.segfault";
    return out;
  }
  if (TakeAmdgpu(message, out)) return out;
  return std::nullopt;
}

}  // namespace gpulens::kernel_log

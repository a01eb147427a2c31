#include "proxy/proxy_sandbox.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/files.h"
#include "base/parse.h"
#include "net/message/http_message.h"

namespace gpulens::proxy {
namespace {

// Libraries that are opened at run time (libpq, libcrypt, those of name services), time zones, CA
// certificates but not their private keys, what the C library and OpenSSL read, and what the journal reads
// of the kernel.
constexpr const char* kMachineFiles[] = {"/usr/lib",
                                         "/usr/lib64",
                                         "/usr/lib32",
                                         "/usr/local/lib",
                                         "/usr/share",
                                         "/usr/local/share",
                                         "/lib",
                                         "/lib64",
                                         "/etc/ld.so.cache",
                                         "/etc/localtime",
                                         "/etc/ssl/certs",
                                         "/etc/ssl/cert.pem",
                                         "/etc/ssl/openssl.cnf",
                                         "/etc/pki/tls/certs",
                                         "/etc/pki/tls/openssl.cnf",
                                         "/etc/pki/ca-trust",
                                         "/etc/ca-certificates",
                                         "/etc/crypto-policies",
                                         "/etc/hosts",
                                         "/etc/host.conf",
                                         "/etc/nsswitch.conf",
                                         "/etc/gai.conf",
                                         "/etc/services",
                                         "/etc/protocols",
                                         "/run/systemd/resolve",
                                         "/run/nscd",
                                         "/proc/self",
                                         "/proc/locks",
                                         "/proc/meminfo",
                                         "/proc/sys/kernel/random",
                                         "/proc/sys/net",
                                         "/sys/devices/system/cpu"};

// Without links; of a file that does not exist, by its folder. Empty: neither exists.
std::string WholePath(const std::string& path) {
  char buffer[PATH_MAX];
  if (::realpath(path.c_str(), buffer)) return buffer;
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  if (!::realpath(folder.c_str(), buffer)) return {};
  const std::string whole(buffer);
  return (whole == "/" ? "" : whole) + "/" + (slash == std::string::npos ? path : path.substr(slash + 1));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return WholePath(".");
  return slash == 0 ? "/" : WholePath(path.substr(0, slash));
}

uint64_t MountOf(const std::string& path) {
  struct statx facts{};
  if (::statx(AT_FDCWD, path.c_str(), AT_NO_AUTOMOUNT, STATX_MNT_ID, &facts) != 0) return 0;
  return facts.stx_mnt_id;
}

// A rule of Landlock is of the file that has a path now. An editor, a DHCP client or Kubernetes puts another
// one there, so the rule is of its folder; but of the file where that is a mount, which cannot be replaced,
// and in /, whose rule would be one of everything.
void AddFileOrFolder(const std::string& path, std::vector<std::string>& rules) {
  const std::string folder = FolderOf(path);
  if (folder.empty()) return;
  rules.push_back(folder == "/" || (MountOf(path) != 0 && MountOf(path) != MountOf(folder)) ? WholePath(path)
                                                                                            : folder);
}

bool Contains(const std::vector<std::string>& rules, const std::string& path) {
  return std::ranges::any_of(rules, [&](const std::string& rule) {
    return path == rule || (path.starts_with(rule) && (path[rule.size()] == '/' || rule == "/"));
  });
}

}  // namespace

void AddPostgresFiles(const std::string& url, ProxyFiles& files) {
  if (!url.starts_with("postgresql://") && !url.starts_with("postgres://")) return;
  const size_t question = url.find('?');
  std::string_view rest = question == std::string::npos ? std::string_view() : url;
  rest.remove_prefix(rest.empty() ? 0 : question + 1);
  while (!rest.empty()) {
    std::string_view value = TakeUntil(rest, '&');
    const std::string_view key = TakeUntil(value, '=');
    const std::string path = DecodePercent(value);
    if (path.starts_with('/') && key != "host") files.read.push_back(path);
  }
  for (const char* variable : {"PGPASSFILE", "PGSERVICEFILE", "PGSSLROOTCERT", "PGSSLCERT", "PGSSLKEY"}) {
    if (const char* path = std::getenv(variable); path && *path == '/') files.read.emplace_back(path);
  }
  const char* home = std::getenv("HOME");
  if (home && *home == '/') files.read.push_back(std::string(home) + "/.postgresql/root.crt");
}

ProxySandbox ProxySandbox::Enter(SandboxMode mode, const ProxyFiles& files) {
  ProxySandbox out;
  if (mode == SandboxMode::kEnforce) {
    for (const std::string& folder : files.folders) {
      // What cannot be made is reported by what writes there.
      static_cast<void>(MakeFoldersAbove(folder + "/"));
      out.rights_.write.push_back(WholePath(folder));
    }
    for (const std::string& path : files.read) {
      AddFileOrFolder(path, out.rights_.read);
      if (const std::string whole = WholePath(path); whole != path) AddFileOrFolder(whole, out.rights_.read);
    }
    // Where it is a link, the link stays: systemd-resolved and NetworkManager replace what it leads to.
    if (const std::string names = WholePath("/etc/resolv.conf"); !names.empty())
      AddFileOrFolder(names, out.rights_.read);
    for (const char* variable : {"SSL_CERT_FILE", "CREDENTIALS_DIRECTORY", "LD_LIBRARY_PATH"}) {
      const char* paths = std::getenv(variable);
      for (std::string_view rest = paths ? paths : ""; !rest.empty();) {
        const std::string path(TakeUntil(rest, ':'));
        if (path.starts_with('/')) out.rights_.read.push_back(WholePath(path));
      }
    }
    for (const char* path : kMachineFiles) out.rights_.read.emplace_back(path);
    std::erase(out.rights_.read, "");
    std::erase(out.rights_.write, "");
    AllowHarmlessDevices(out.rights_);
  }
  SandboxPlan plan{.mode = mode, .filter = CallFilter::kAgent, .files = out.rights_, .capabilities = {}};
  out.layers_ = EnterSandbox(plan);
  out.limits_files_ = std::ranges::any_of(
      out.layers_, [](const SandboxLayer& layer) { return layer.name == "files" && layer.on; });
  return out;
}

std::vector<std::string> ProxySandbox::Outside(const ProxyFiles& files) const {
  std::vector<std::string> out;
  if (!limits_files_) return out;
  for (const std::string& path : files.read) {
    const std::string whole = WholePath(path);
    if (!Contains(rights_.read, whole) && !Contains(rights_.write, whole)) out.push_back(path);
  }
  for (const std::string& folder : files.folders) {
    if (!Contains(rights_.write, WholePath(folder))) out.push_back(folder);
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace gpulens::proxy

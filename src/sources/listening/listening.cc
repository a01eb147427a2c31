#include "sources/listening/listening.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/files.h"
#include "base/parse.h"
#include "base/process_files.h"

namespace gpulens::listening {
namespace {

constexpr std::string_view kListen = "0A";  // TCP_LISTEN

std::string_view NextField(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
  return TakeUntil(line, ' ');
}

// "0100007F:1F90": words of 32 bits as this machine holds them, so their bytes are in network order.
std::optional<Endpoint> ParseAt(std::string_view text, bool ipv6) {
  const size_t digits = ipv6 ? 32 : 8;
  if (text.size() != digits + 5 || text[digits] != ':') return std::nullopt;
  Endpoint at;
  at.family = ipv6 ? Endpoint::Family::kIpv6 : Endpoint::Family::kIpv4;
  for (size_t word = 0; word * 8 < digits; ++word) {
    auto value = ParseInt<uint32_t>(text.substr(word * 8, 8), 16);
    if (!value) return std::nullopt;
    std::memcpy(at.ip.data() + word * 4, &*value, 4);
  }
  auto port = ParseInt<uint16_t>(text.substr(digits + 1), 16);
  if (!port || *port == 0) return std::nullopt;
  at.port = *port;
  return at;
}

constexpr size_t kMaxProcesses = 32'768;
constexpr size_t kMaxDescriptors = 65'536;  // of one process
constexpr size_t kMaxSockets = 4096;
constexpr size_t kMaxArguments = 256;
constexpr size_t kTableBytes = 16 << 20;

std::string ProcPath(const std::string& root, std::string_view rest) {
  std::string path = root;
  if (path.empty() || path.back() != '/') path += '/';
  return path.append("proc/").append(rest);
}

std::vector<int> AllPids(const std::string& root) {
  std::vector<int> pids;
  static_cast<void>(ForEachName(ProcPath(root, ""), [&](std::string_view name) {
    if (auto pid = ParseInt<int>(name); pid && *pid > 0) pids.push_back(*pid);
    return pids.size() < kMaxProcesses;
  }));
  std::ranges::sort(pids);
  return pids;
}

// "net:[123]": the number.
std::optional<uint64_t> NumberOfNamespace(std::string_view text) {
  constexpr std::string_view kStart = "net:[";
  if (!text.starts_with(kStart) || !text.ends_with(']')) return std::nullopt;
  return ParseInt<uint64_t>(text.substr(kStart.size(), text.size() - kStart.size() - 1));
}

// Field 22 of /proc/PID/stat; the name in parentheses may hold anything.
uint64_t StartOf(std::string_view stat) {
  size_t close = stat.rfind(')');
  if (close == std::string_view::npos) return 0;
  std::string_view rest = Trim(stat.substr(close + 1));
  std::string_view field;
  for (int number = 3; number <= 22; ++number) field = TakeUntil(rest, ' ');
  return ParseInt<uint64_t>(field).value_or(0);
}

bool ReadName(const std::string& base, std::string& scratch, ListedProcess& out) {
  if (!ReadFile((base + "comm").c_str(), scratch, 256)) return false;
  out.name = Trim(scratch);
  // A command line above the limit is truncated: the program is at its front.
  Status read = ReadFile((base + "cmdline").c_str(), scratch, 64 << 10);
  if (!read && read.code != Code::kExhausted) return false;
  out.args.clear();
  std::string_view rest = scratch;
  while (!rest.empty() && out.args.size() < kMaxArguments) out.args.emplace_back(TakeUntil(rest, '\0'));
  return true;
}

void ReadRest(const std::string& root, const std::string& base, std::string& scratch, ListedProcess& out) {
  struct stat info{};
  if (::stat(base.c_str(), &info) == 0) out.uid = info.st_uid;
  if (ReadFile((base + "stat").c_str(), scratch, 4096)) out.started = StartOf(scratch);
  out.net_ns = NetNamespace(root, std::to_string(out.pid));
}

}  // namespace

size_t AppendListening(std::string_view table, bool ipv6, size_t limit, std::vector<ListeningSocket>& out) {
  size_t bad = 0;
  TakeUntil(table, '\n');  // the heading
  while (!table.empty() && out.size() < limit) {
    std::string_view line = TakeUntil(table, '\n');
    std::array<std::string_view, 10> fields;
    for (auto& field : fields) field = NextField(line);
    if (fields[3] != kListen && !fields[3].empty()) continue;
    auto at = ParseAt(fields[1], ipv6);
    auto uid = ParseInt<uint32_t>(fields[7]);
    auto inode = ParseInt<uint64_t>(fields[9]);
    if (at && uid && inode && *inode != 0) out.push_back({*at, *inode, *uid});
    else bad += 1;
  }
  return bad;
}

// "           |-- 10.244.0.5" and below it "              /32 host LOCAL".
std::vector<Endpoint> LocalAddresses(std::string_view fib_trie) {
  std::vector<Endpoint> out;
  std::string_view last;
  while (!fib_trie.empty()) {
    std::string_view line = Trim(TakeUntil(fib_trie, '\n'));
    if (line.starts_with("|-- ")) {
      last = line.substr(4);
      continue;
    }
    if (line != "/32 host LOCAL" || last.empty()) continue;
    auto at = ParseIp(last);
    last = {};
    if (!at || at->IsLoopback() || std::find(out.begin(), out.end(), *at) != out.end()) continue;
    out.push_back(*at);
  }
  return out;
}

uint64_t NetNamespace(const std::string& root, const std::string& who) {
  const Result<std::string> target = ReadProcessLink(ProcPath(root, who + "/ns/net"));
  return target ? NumberOfNamespace(*target).value_or(0) : 0;
}

std::optional<ListedProcess> ReadProcess(const std::string& root, int pid) {
  ListedProcess process;
  process.pid = pid;
  std::string scratch, base = ProcPath(root, std::to_string(pid) + "/");
  if (!ReadName(base, scratch, process)) return std::nullopt;
  ReadRest(root, base, scratch, process);
  return process;
}

std::vector<ListedProcess> ListProcesses(const std::string& root, const ProcessFilter& wants, size_t limit) {
  std::vector<ListedProcess> out;
  std::string scratch;
  ListedProcess process;
  for (int pid : AllPids(root)) {
    if (out.size() == limit) break;
    std::string base = ProcPath(root, std::to_string(pid) + "/");
    process.pid = pid;
    if (!ReadName(base, scratch, process) || !wants(process.name, process.args)) continue;
    ReadRest(root, base, scratch, process);
    out.push_back(process);
  }
  return out;
}

std::vector<SocketHolder> FindHolders(const std::string& root, const std::vector<int>& pids,
                                      const std::vector<uint64_t>& inodes, size_t& hidden) {
  std::vector<SocketHolder> out;
  std::vector<uint64_t> left = inodes;
  std::sort(left.begin(), left.end());
  for (int pid : pids.empty() ? AllPids(root) : pids) {
    if (left.empty()) break;
    const auto sockets = SocketsOfProcess(ProcPath(root, std::to_string(pid) + "/fd"), kMaxDescriptors);
    hidden += !sockets;
    if (!sockets) continue;
    for (uint64_t inode : *sockets) {
      auto found = std::ranges::lower_bound(left, inode);
      if (found == left.end() || *found != inode) continue;
      out.push_back({inode, pid});
      left.erase(found);
    }
  }
  return out;
}

std::vector<ListeningSocket> ListListening(const std::string& root, const std::string& who) {
  std::vector<ListeningSocket> out;
  std::string text;
  for (bool ipv6 : {false, true}) {
    Status read =
        ReadFile(ProcPath(root, who + (ipv6 ? "/net/tcp6" : "/net/tcp")).c_str(), text, kTableBytes);
    if (read) AppendListening(text, ipv6, kMaxSockets, out);
  }
  return out;
}

std::vector<Endpoint> ListAddresses(const std::string& root, const std::string& who) {
  std::string text;
  if (!ReadFile(ProcPath(root, who + "/net/fib_trie").c_str(), text, kTableBytes)) return {};
  return LocalAddresses(text);
}

}  // namespace gpulens::listening

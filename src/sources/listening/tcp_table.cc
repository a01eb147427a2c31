#include "sources/listening/tcp_table.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "base/parse.h"

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

}  // namespace

size_t AppendListening(std::string_view table, bool ipv6, size_t limit, std::vector<Socket>& out) {
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

}  // namespace gpulens::listening

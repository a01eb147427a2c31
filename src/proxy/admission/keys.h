// Virtual keys, by which clients of the proxy authenticate, and the file that lists them.
//
// A key is `gpl_<id>_<secret>`: the id is public and has 1 to 32 letters, digits and hyphens; the secret is
// 32 random bytes as 43 characters of base64url. The file has the SHA-256 of these 43 characters, as `printf
// %s SECRET | sha256sum` prints it. A fast hash suffices, since 2^256 secrets cannot be tried.
//
// The file is TSV, one key a line, so that a line can be added by `>>`, found by grep and read in a
// difference. The first line names the columns: id, sha256 and tenant; the others may be absent. `#` begins a
// comment line. An empty cell or "-" is the default.
//   project             of the tenant
//   models              patterns with `*`, comma-separated; default: all
//   budgets             names of budgets, or amounts of the key's own: "25.50/month", "10/day+02:00", "5/5h"
//   rpm, tpm, streams   requests and tokens a minute, streams at once; default: no limit
//   profile             managed, byok, subscription or byoc; default: that of the provider
//   expires             RFC 3339, or a date, which begins in UTC: the first moment at which the key is not
//   valid default_max_tokens  what is set where a request has no limit of its own allow_unmetered prefixes of
//   paths without metering; not together with budgets state               active (default) or revoked
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gpulens/status.h>

#include "base/hash.h"
#include "pricing/charge.h"
#include "proxy/admission/budgets.h"

namespace gpulens::proxy {

using SecretDigest = Sha256::Digest;
SecretDigest DigestOf(std::string_view secret);
// In a time that does not depend on what they have.
bool EqualInConstantTime(const SecretDigest& a, const SecretDigest& b) noexcept;

struct VirtualKey {
  struct OwnBudget {
    int64_t limit_pico = 0;
    BudgetWindow window;
    bool operator==(const OwnBudget&) const = default;
  };
  std::string id;
  SecretDigest digest{};
  std::string tenant, project;
  std::vector<std::string> models;   // empty: all
  std::vector<std::string> budgets;  // names
  std::vector<OwnBudget> own_budgets;
  int64_t requests_per_minute = 0, tokens_per_minute = 0, streams = 0;  // 0: no limit
  std::optional<pricing::Profile> profile;                              // none: that of the provider
  int64_t expires_unix_ns = 0;                                          // 0: never
  int64_t default_max_tokens = 0;                                       // 0: none
  std::vector<std::string> allow_unmetered;
  bool revoked = false;

  bool AllowsModel(std::string_view model) const noexcept;
  bool operator==(const VirtualKey&) const = default;
};

enum class KeyOutcome : uint8_t { kValid, kUnknown, kExpired, kRevoked };

// What a verification has done, for tests of its timing.
struct KeyWork {
  size_t digests = 0, digested_bytes = 0, compared_bytes = 0;
  bool operator==(const KeyWork&) const = default;
};

struct KeyCheck {
  KeyOutcome outcome = KeyOutcome::kUnknown;
  const VirtualKey* key = nullptr;  // null when unknown
};

// A cell of a key: the name of its column, and its text. An empty text and "-" are the default.
struct KeyCell {
  std::string_view column, text;
};
// The key that a line with these cells has; without sha256 its digest is zeros. kInvalidArgument: a cell that
// cannot be in a file, or an unknown column; a message never has a digest.
Result<VirtualKey> KeyOf(std::span<const KeyCell> cells);

// The keys of a file. Immutable; any thread. Moving keeps pointers to keys valid.
class KeyTable {
 public:
  static constexpr size_t kMostFileBytes = size_t{32} << 20;
  static constexpr size_t kMostKeys = 200'000;

  KeyTable() = default;
  KeyTable(KeyTable&&) = default;
  KeyTable& operator=(KeyTable&&) = default;
  // `name` is for messages. kInvalidArgument as "keys.tsv:12: …"; a message never has a secret or a digest.
  static Result<KeyTable> Parse(std::string_view text, const std::string& name);
  // Refuses a file that others may read (CheckSecretFile).
  static Result<KeyTable> Load(const std::string& path);

  // Does not allocate. Null: there is none.
  const VirtualKey* Find(std::string_view id) const noexcept;
  // Verifies what a client sent. A malformed key, an unknown id and a wrong secret cost the same: one digest
  // of 43 bytes and one comparison of 32, without a branch on their content; that a key expired or is revoked
  // is known only to who has its secret. `work` may be null.
  KeyCheck Verify(std::string_view presented, int64_t unix_ns, KeyWork* work = nullptr) const;

  const std::vector<VirtualKey>& keys() const noexcept { return keys_; }

 private:
  struct Hash {
    size_t operator()(std::string_view id) const noexcept;
  };
  std::vector<VirtualKey> keys_;
  std::unordered_map<std::string_view, uint32_t, Hash> by_id_;  // views of keys_
};

// A new key. The secret is nowhere else: who loses `key` needs a new one.
struct NewKey {
  std::string key;   // for the client, once
  std::string line;  // for the file, with all columns of kKeyColumns
};
extern const std::string_view kKeyColumns;  // the first line of a new file
// `settings` as a line of kKeyColumns, without a newline.
std::string KeyLine(const VirtualKey& settings);
// Draws the secret from the kernel; settings.digest is ignored. kInvalidArgument: a value that a line cannot
// have.
// kUnavailable: no random bytes.
Result<NewKey> MakeKey(VirtualKey settings);

// Whether a file with secrets is one that only its owner may write and only owner and group may read: 0600,
// 0640 or less, and a regular file. kPermissionDenied, with what to do; kUnavailable: absent.
Status CheckSecretFile(const std::string& path);

// The token of "Bearer TOKEN", the scheme in any case; empty for another text.
std::string_view BearerToken(std::string_view authorization) noexcept;

}  // namespace gpulens::proxy

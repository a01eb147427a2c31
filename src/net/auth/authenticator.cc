#include "net/auth/authenticator.h"

#include <dlfcn.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/log.h"
#include "base/parse.h"
#include "base/process.h"
#include "base/result.h"
#include "base/threads.h"

namespace gpulens {
namespace {

constexpr size_t kMaxCredentials = 1024;
constexpr size_t kMaxRemembered = 128;
// Nice value of the password thread: below the rest of the agent, yet done within seconds when all cores are
// busy.
constexpr int kNice = 10;
// The hash of no password, tried for unknown users. Its cost is at kCostAt.
constexpr std::string_view kUnknownUser = "$2y$10$hdrrOJ0W/5ts2rE0nFWT.egzLtAmEk8tmFHLyg.n56Lsup.xVP87u";
constexpr size_t kCostAt = 4;

using Digest = std::array<unsigned char, SHA256_DIGEST_LENGTH>;

bool SameText(std::string_view a, std::string_view b) {
  // Timing may depend on the length, not on the content.
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

int CostOf(std::string_view hash) { return ParseInt<int>(hash.substr(kCostAt, 2)).value_or(0); }

std::string UnknownUserOfCost(int cost) {
  std::string hash(kUnknownUser);
  hash[kCostAt] = static_cast<char>('0' + cost / 10);
  hash[kCostAt + 1] = static_cast<char>('0' + cost % 10);
  return hash;
}

// Strict enough for credentials: whole groups, padding at the end only.
std::string DecodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0 || text.size() > kMaxCredentials) return {};
  std::string out(text.size() / 4 * 3, '\0');
  int size =
      EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), static_cast<int>(text.size()));
  if (size < 0) return {};
  size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  out.resize(static_cast<size_t>(size) - padding);
  return out;
}

// crypt_rn of libxcrypt, thread-safe. Returns null when `size` is too small for its state, or `hash` is none.
using CryptFunction = char*(const char* password, const char* hash, void* state, int size);
constexpr size_t kCryptState = 32768;  // sizeof(crypt_data), part of libxcrypt's ABI

// Opens libcrypt at the first call: docs/adr/0047-libcrypt-at-run-time.md.
Result<CryptFunction*> OpenCrypt() {
  static const Result<CryptFunction*> opened = []() -> Result<CryptFunction*> {
    std::string first_error;
    for (const std::string name : {"libcrypt.so.1", "libcrypt.so.2"}) {
      auto library = OpenSharedLibrary(std::span(&name, 1));
      if (library) {
        if (void* found = ::dlsym(library->handle, "crypt_rn"))
          return reinterpret_cast<CryptFunction*>(found);
      }
      if (first_error.empty()) first_error = library ? name + " has no crypt_rn" : library.error().detail;
    }
    return Status{Code::kUnavailable,
                  "checking passwords needs libcrypt (Debian: libcrypt1, Fedora: libxcrypt): " + first_error};
  }();
  return opened;
}

bool PasswordFits(const std::string& password, const std::string& hash) {
  const auto crypt = OpenCrypt();
  if (!crypt) return false;  // Load refuses users without it
  auto state = std::make_unique<std::array<unsigned char, kCryptState>>();
  const char* made = (*crypt)(password.c_str(), hash.c_str(), state->data(), static_cast<int>(kCryptState));
  bool fits = made && made[0] != '*' && SameText(made, hash);
  OPENSSL_cleanse(state->data(), state->size());
  return fits;
}

// Makes a wrong password take as long as the most expensive hash, or timing would reveal which users exist.
// Each step of cost doubles the work, so one more hash of each cost from its own up adds up to that.
bool CheckAtCost(const std::string& password, const std::string& hash, int dearest) {
  if (PasswordFits(password, hash)) return true;
  for (int cost = CostOf(hash); cost < dearest; ++cost)
    static_cast<void>(PasswordFits(password, UnknownUserOfCost(cost)));
  return false;
}

}  // namespace

struct Authenticator::State {
  State(IoLoop& loop_in, std::string path_in, Offload offload_in)
      : loop(loop_in), path(std::move(path_in)), offload(std::move(offload_in)) {
    // From the kernel, as OpenSSL's would initialize all of OpenSSL.
    CHECK(::getentropy(salt.data(), salt.size()) == 0);
  }

  Status Load();
  std::vector<std::pair<std::string, FileMark>> Marks(const WebConfig& of) const;
  bool Changed() const;
  Digest Fingerprint(std::string_view user, std::string_view password, std::string_view hash) const;
  Access CheckPassword(std::string credentials, const Endpoint& from, const std::shared_ptr<State>& self,
                       std::function<void(Access)> done);

  IoLoop& loop;
  const std::string path;
  const Offload offload;
  WebConfig config;
  std::string token;
  std::shared_ptr<const WebRules> rules = std::make_shared<WebRules>();
  std::vector<std::pair<std::string, FileMark>> marks;
  std::chrono::steady_clock::time_point looked_at{};
  uint64_t failed_reloads = 0;
  std::array<unsigned char, 32> salt{};
  std::deque<Digest> remembered;  // newest last
  int dearest = 0;                // cost of any user's hash
  bool gone = false;
};

std::vector<std::pair<std::string, FileMark>> Authenticator::State::Marks(const WebConfig& of) const {
  std::vector<std::pair<std::string, FileMark>> made;
  made.emplace_back(path, MarkOf(path));
  for (const std::string& file : of.Files()) made.emplace_back(file, MarkOf(file));
  return made;
}

bool Authenticator::State::Changed() const {
  for (const auto& [file, mark] : marks) {
    if (MarkOf(file) != mark) return true;
  }
  return false;
}

Status Authenticator::State::Load() {
  // Marks are taken before reading, so a file that changes meanwhile is read again; and kept when the
  // files are bad, so the same bad ones are tried and reported once.
  marks = Marks(config);
  FileMark config_mark = marks.front().second;
  ASSIGN_OR_RETURN(WebConfig fresh, LoadWebConfig(path));
  marks = Marks(fresh);
  marks.front().second = config_mark;
  if (!fresh.users.empty()) {
    if (auto crypt = OpenCrypt(); !crypt)
      return {crypt.error().code, path + ": basic_auth_users: " + crypt.error().detail};
  }
  auto made = std::make_shared<WebRules>();
  if (fresh.tls) {
    auto tls = TlsContext::Server(*fresh.tls);
    if (!tls) return {tls.error().code, path + ": tls_server_config: " + tls.error().detail};
    made->tls = *tls;
  }
  std::string fresh_token = fresh.bearer_token;
  if (!fresh.bearer_token_file.empty()) {
    ASSIGN_OR_RETURN(fresh_token, ReadFile(fresh.bearer_token_file, 64 << 10));
    fresh_token = Trim(fresh_token);
    if (fresh_token.empty())
      return {Code::kInvalidArgument, fresh.bearer_token_file + ": the token is empty"};
  }
  made->headers.clear();
  for (const auto& [name, value] : fresh.headers) made->headers += name + ": " + value + "\r\n";
  for (std::string_view rest = kSafeHeaders; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n') + 1);
    rest.remove_prefix(line.size());
    const std::string_view name = line.substr(0, line.find(':'));
    const bool overridden =
        std::ranges::any_of(fresh.headers, [&](const auto& one) { return one.first == name; });
    if (!overridden) made->headers += line;
  }
  made->allowed_hosts = rules->allowed_hosts;
  if (!fresh.users.empty()) {
    made->challenge = "Basic realm=\"gpulens\", charset=\"UTF-8\"";
  } else if (!fresh_token.empty()) {
    made->challenge = "Bearer realm=\"gpulens\"";
  }
  config = std::move(fresh);
  dearest = 0;
  for (const auto& [name, hash] : config.users) dearest = std::max(dearest, CostOf(hash));
  token = std::move(fresh_token);
  rules = std::move(made);
  return Ok();
}

Digest Authenticator::State::Fingerprint(std::string_view user, std::string_view password,
                                         std::string_view hash) const {
  // The hash is part of it, so that a changed password forgets the old one.
  std::string text(reinterpret_cast<const char*>(salt.data()), salt.size());
  for (std::string_view part : {user, password, hash}) {
    text += std::to_string(part.size()) + ":";
    text += part;
  }
  Digest digest{};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  OPENSSL_cleanse(text.data(), text.size());
  return digest;
}

Access Authenticator::State::CheckPassword(std::string credentials, const Endpoint& from,
                                           const std::shared_ptr<State>& self,
                                           std::function<void(Access)> done) {
  size_t colon = credentials.find(':');
  // crypt(3) ends at a NUL: a longer text must not pass for its beginning.
  if (colon == std::string::npos || credentials.find('\0') != std::string::npos) return Access::kDenied;
  std::string user = credentials.substr(0, colon), password = credentials.substr(colon + 1);
  auto found = config.users.find(user);
  bool known = found != config.users.end();
  std::string hash = known ? found->second : UnknownUserOfCost(dearest);
  Digest print = Fingerprint(user, password, hash);
  bool remembered_one = false;
  for (const Digest& each : remembered) {
    remembered_one |= CRYPTO_memcmp(each.data(), print.data(), print.size()) == 0;
  }
  if (known && remembered_one) return Access::kGranted;
  const bool taken =
      offload(from, [self, known, print, password = std::move(password), hash = std::move(hash),
                     most = dearest, done = std::move(done)](bool turn) {
        const bool good = turn && CheckAtCost(password, hash, most) && known;
        self->loop.Post([self, turn, good, print, done] {
          if (self->gone) return;
          if (good) {
            if (self->remembered.size() == kMaxRemembered) self->remembered.pop_front();
            self->remembered.push_back(print);
          }
          if (!turn) return done(Access::kBusy);
          done(good ? Access::kGranted : Access::kDenied);
        });
      });
  return taken ? Access::kPending : Access::kBusy;
}

Authenticator::Authenticator(std::shared_ptr<State> state) : state_(std::move(state)) {}
Authenticator::~Authenticator() {
  state_->loop.Call([this] { state_->gone = true; });
}

Result<std::unique_ptr<Authenticator>> Authenticator::Open(IoLoop& loop, const std::string& path,
                                                           Offload offload) {
  auto state = std::make_shared<State>(loop, path, std::move(offload));
  if (!path.empty()) RETURN_IF_ERROR(state->Load());
  return std::unique_ptr<Authenticator>(new Authenticator(std::move(state)));
}

Status Authenticator::Reload() { return state_->path.empty() ? Ok() : state_->Load(); }

std::shared_ptr<const WebRules> Authenticator::Rules() {
  auto now = std::chrono::steady_clock::now();
  if (!state_->path.empty() && now - state_->looked_at >= std::chrono::seconds(1)) {
    state_->looked_at = now;
    if (state_->Changed()) {
      Status loaded = state_->Load();
      if (!loaded) {
        ++state_->failed_reloads;
        Log(LogLevel::kError, "net", "web_config_bad", loaded.detail + "; the previous rules stay in force");
      } else {
        Log(LogLevel::kInfo, "net", "web_config_loaded", "web config or its certificates changed; read again",
            state_->path);
      }
    }
  }
  return state_->rules;
}

void Authenticator::AllowHosts(std::vector<std::string> names) {
  auto made = std::make_shared<WebRules>(*state_->rules);
  made->allowed_hosts = std::move(names);
  state_->rules = std::move(made);
}

const WebConfig& Authenticator::config() const noexcept { return state_->config; }
uint64_t Authenticator::failed_reloads() const noexcept { return state_->failed_reloads; }

Access Authenticator::Check(std::string_view authorization, const Endpoint& from,
                            std::function<void(Access)> done) {
  State& state = *state_;
  if (state.config.users.empty() && state.token.empty()) return Access::kGranted;
  std::string_view rest = Trim(authorization);
  std::string_view scheme = TakeUntil(rest, ' ');
  rest = Trim(rest);
  if (!state.token.empty() && EqualsIgnoringCase(scheme, "Bearer")) {
    return SameText(rest, state.token) ? Access::kGranted : Access::kDenied;
  }
  if (state.config.users.empty() || !EqualsIgnoringCase(scheme, "Basic")) return Access::kDenied;
  return state.CheckPassword(DecodeBase64(rest), from, state_, std::move(done));
}

PasswordQueue::Key PasswordQueue::KeyOf(const Endpoint& from) noexcept {
  Key key{};
  // Users of this machine may choose among millions of its own addresses.
  if (from.family == Endpoint::Family::kUnix || from.IsLoopback()) return key;
  key[0] = static_cast<uint8_t>(from.family);
  const size_t size = from.family == Endpoint::Family::kIpv4 ? 4 : 8;
  std::copy_n(from.ip.begin(), size, key.begin() + 1);
  return key;
}

bool PasswordQueue::Push(const Endpoint& from, Job& job, Job& gone) {
  const Key key = KeyOf(from);
  const auto own = waiting_.find(key);
  const size_t has = own == waiting_.end() ? 0 : own->second.size();
  if (has >= limits_.of_one_address) return false;
  if (size_ >= limits_.waiting) {
    const auto most =
        std::ranges::max_element(waiting_, {}, [](const auto& one) { return one.second.size(); });
    if (most == waiting_.end() || most->second.size() <= has + 1) return false;
    gone = std::move(most->second.back());
    most->second.pop_back();
    --size_;
  }
  waiting_[key].push_back(std::move(job));
  ++size_;
  return true;
}

std::optional<PasswordQueue::Job> PasswordQueue::Pop() {
  if (waiting_.empty()) return std::nullopt;
  auto next = last_ ? waiting_.upper_bound(*last_) : waiting_.begin();
  if (next == waiting_.end()) next = waiting_.begin();
  last_ = next->first;
  Job job = std::move(next->second.front());
  next->second.pop_front();
  if (next->second.empty()) waiting_.erase(next);
  --size_;
  return job;
}

bool PasswordThread::Post(const Endpoint& from, PasswordQueue::Job job) {
  PasswordQueue::Job gone;
  {
    std::lock_guard lock(mutex_);
    if (stopping_) return false;
    if (!thread_.joinable()) {
      if (Status started = StartThread(thread_, [this] { Run(); }); !started) {
        Log(LogLevel::kError, "net", "no_thread", "passwords cannot be checked: " + started.detail);
        return false;
      }
    }
    if (!queue_.Push(from, job, gone)) return false;
  }
  wake_.notify_one();
  if (gone) gone(false);
  return true;
}

void PasswordThread::Stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    while (queue_.Pop()) {
    }
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void PasswordThread::Run() {
  // Applies to this thread alone: on Linux each has its own.
  const auto self = static_cast<id_t>(::gettid());
  if (::getpriority(PRIO_PROCESS, self) < kNice) static_cast<void>(::setpriority(PRIO_PROCESS, self, kNice));
  while (true) {
    std::optional<PasswordQueue::Job> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      job = queue_.Pop();
    }
    (*job)(true);
  }
}

}  // namespace gpulens

#include "store/postgres/postgres.h"

#include <dlfcn.h>

#include <limits>
#include <utility>

#include "base/parse.h"
#include "base/ref.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::postgres {
namespace {

// Casts to the type of the member: dlsym returns an object pointer.
template <class Function>
bool Assign(Function& member, void* symbol) {
  member = reinterpret_cast<Function>(symbol);
  return symbol != nullptr;
}

struct Loaded {
  Libpq functions;
  Status status;

  Loaded() { status = Fill(); }

  Status Fill() {
    void* library = ::dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      const char* why = ::dlerror();
      return {Code::kUnavailable,
              std::string("PostgreSQL's client library is not installed (Debian: libpq5): ") +
                  (why ? why : "libpq.so.5 cannot be opened")};
    }
#define GPULENS_LIBPQ_ASSIGN(member, symbol, result, parameters) \
  if (!Assign(functions.member, ::dlsym(library, symbol)))       \
    return {Code::kUnavailable, "libpq.so.5 has no " symbol ": it is too old"};
    GPULENS_LIBPQ_CALLS(GPULENS_LIBPQ_ASSIGN)
#undef GPULENS_LIBPQ_ASSIGN
    return Ok();
  }
};

constexpr std::string_view kSchemes[] = {"postgresql://", "postgres://"};

// Values of libpq's interface, which do not change.
constexpr int kConnected = 0, kCommandOk = 1, kRowsOk = 2;
constexpr int kSqlState = 'C', kPrimaryMessage = 'M';

void PassOver(void* /*own*/, const char* /*message*/) {}

std::string OneLine(const char* text) {
  std::string line(Trim(text ? text : ""));
  for (char& c : line) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return line;
}

}  // namespace

Result<const Libpq*> Load() {
  static Immortal<Loaded> loaded;
  RETURN_IF_ERROR((*loaded).status);
  return &(*loaded).functions;
}

bool IsUrl(std::string_view text) noexcept {
  return text.starts_with(kSchemes[0]) || text.starts_with(kSchemes[1]);
}

uint64_t ResultRows::changes() const noexcept {
  return ParseInt<uint64_t>(libpq_->changes(result_.get())).value_or(0);
}

std::string_view ResultRows::Text(int column) const noexcept {
  return {libpq_->value(result_.get(), at_, column),
          static_cast<size_t>(libpq_->length(result_.get(), at_, column))};
}
double ResultRows::Real(int column) const noexcept {
  return ParseDouble(Text(column)).value_or(std::numeric_limits<double>::quiet_NaN());
}
std::optional<int64_t> ResultRows::MaybeInt(int column) const noexcept {
  if (IsNull(column)) return std::nullopt;
  return ParseInt<int64_t>(Text(column));
}

Result<Connection> Connection::Open(const std::string& url) {
  ASSIGN_OR_RETURN(const Libpq* libpq, Load());
  // libpq's message about an invalid URL repeats it with the password.
  char* error = nullptr;
  LibOption* parsed = libpq->parse(url.c_str(), &error);
  if (error) libpq->memory_free(error);
  if (!parsed)
    return Status{Code::kInvalidArgument, UrlName(url) +
                                              " and what follows cannot be read as a URL of PostgreSQL; "
                                              "special characters of a password are written as %40"};
  libpq->parse_free(parsed);
  // The URL overrides earlier options.
  const char* keys[] = {"connect_timeout", "tcp_user_timeout", "fallback_application_name",
                        "dbname",          "client_encoding",  nullptr};
  const char* values[] = {"5", "10000", "gpulens", url.c_str(), "UTF8", nullptr};
  LibConnection* handle = libpq->connect(keys, values, 1);
  if (!handle) return Status{Code::kExhausted, "no memory for a connection"};
  Connection connection(*libpq, handle);
  if (libpq->status(handle) != kConnected)
    return Status{Code::kUnavailable, UrlName(url) + ": " + OneLine(libpq->error(handle))};
  libpq->on_notice(handle, &PassOver, nullptr);
  // Servers before 12 round otherwise.
  RETURN_IF_ERROR(connection.Run("SET extra_float_digits = 3"));
  return connection;
}

Result<ResultRows> Connection::Query(const std::string& sql, Parameters parameters) const {
  std::vector<const char*> values;
  values.reserve(parameters.size());
  for (const auto& parameter : parameters) values.push_back(parameter ? parameter->c_str() : nullptr);
  LibResult* result = libpq_->run(handle_.get(), sql.c_str(), static_cast<int>(values.size()), nullptr,
                                  values.data(), nullptr, nullptr, 0);
  if (!result) return Status{Code::kUnavailable, OneLine(libpq_->error(handle_.get()))};
  ResultRows rows(*libpq_, result);
  const int status = libpq_->result_status(result);
  if (status == kCommandOk || status == kRowsOk) return rows;
  const char* field = libpq_->result_field(result, kSqlState);
  const std::string_view state = field ? field : "";
  const char* message = libpq_->result_field(result, kPrimaryMessage);
  std::string detail = OneLine(message ? message : libpq_->error(handle_.get()));
  if (libpq_->status(handle_.get()) != kConnected) return Status{Code::kUnavailable, std::move(detail)};
  const bool data = state.starts_with("22") || state.starts_with("23");
  return Status{data ? Code::kInvalidArgument : Code::kIo, std::move(detail)};
}

Status Connection::Run(const std::string& sql, Parameters parameters) const {
  return Query(sql, parameters).status();
}

Result<int64_t> Connection::Number(const std::string& sql, Parameters parameters) const {
  ASSIGN_OR_RETURN(ResultRows rows, Query(sql, parameters));
  if (!rows.Step()) return Status{Code::kDataLoss, "no row for " + sql};
  if (auto number = rows.MaybeInt(0)) return *number;
  return Status{Code::kDataLoss, "no number for " + sql};
}

}  // namespace gpulens::postgres

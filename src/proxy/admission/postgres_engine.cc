#include <chrono>
#include <optional>
#include <vector>

#include "base/result.h"
#include "proxy/admission/engines.h"
#include "store/postgres/postgres.h"

namespace gpulens::proxy {
namespace {

constexpr const char* kTables[] = {
    "CREATE TABLE IF NOT EXISTS gpulens_budget (name text PRIMARY KEY, limit_micros bigint NOT NULL DEFAULT "
    "0, "
    "spent_micros bigint NOT NULL DEFAULT 0, leased_micros bigint NOT NULL DEFAULT 0, window_ms bigint NOT "
    "NULL "
    "DEFAULT 0)",
    // One row for each start of a replica; its sequence makes a report that arrives twice count once.
    "CREATE TABLE IF NOT EXISTS gpulens_budget_lease (budget text NOT NULL, replica text NOT NULL, fence "
    "bigint NOT "
    "NULL, amount_micros bigint NOT NULL, spent_micros bigint NOT NULL, sequence bigint NOT NULL, expires_ms "
    "bigint "
    "NOT NULL, lapsed_micros bigint NOT NULL, PRIMARY KEY (budget, replica, fence))",
    "CREATE TABLE IF NOT EXISTS gpulens_budget_fence (one boolean PRIMARY KEY, fence bigint NOT NULL)"};

// The server's clock: those of the replicas differ.
constexpr const char* kNowMs = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";

class PostgresEngine final : public BudgetEngine {
 public:
  explicit PostgresEngine(std::string url) : url_(std::move(url)) {}

  Result<int64_t> NewFence() override {
    RETURN_IF_ERROR(Connect());
    auto fence =
        connection_->Number(std::string("INSERT INTO gpulens_budget_fence VALUES (true, ") + kNowMs +
                            ") ON CONFLICT (one) DO UPDATE SET fence = greatest(gpulens_budget_fence.fence + "
                            "1, excluded.fence) RETURNING fence");
    if (!fence) connection_.reset();
    return fence;
  }

  Result<LeaseReply> Exchange(const LeaseCall& call) override {
    const bool kept = connection_.has_value();
    Result<LeaseReply> reply = Once(call);
    // A kept connection may have been closed; the call's sequence makes it safe to repeat.
    if (!reply && kept && reply.error().code == Code::kUnavailable) reply = Once(call);
    return reply;
  }

 private:
  using Values = std::vector<std::optional<std::string>>;

  Status Connect() {
    if (connection_) return Ok();
    ASSIGN_OR_RETURN(postgres::Connection made, postgres::Connection::Open(url_));
    RETURN_IF_ERROR(made.Run("SET lock_timeout = '2s'"));
    RETURN_IF_ERROR(made.Run("SET statement_timeout = '5s'"));
    // Several replicas that make them at once get a unique violation: the second try finds them.
    for (const char* sql : kTables) {
      if (!made.Run(sql)) RETURN_IF_ERROR(made.Run(sql));
    }
    connection_.emplace(std::move(made));
    return Ok();
  }

  Result<LeaseReply> Once(const LeaseCall& call) {
    RETURN_IF_ERROR(Connect());
    Result<LeaseReply> reply = Transaction(call);
    // Whatever a failed transaction has left open ends with its connection.
    if (!reply) connection_.reset();
    return reply;
  }

  Result<LeaseReply> Transaction(const LeaseCall& call) {
    const postgres::Connection& db = *connection_;
    RETURN_IF_ERROR(db.Run("BEGIN"));
    RETURN_IF_ERROR(
        db.Run("INSERT INTO gpulens_budget (name) VALUES ($1) ON CONFLICT DO NOTHING", Values{call.budget}));
    // Locks the budget until the end: calls for it are one after the other.
    ASSIGN_OR_RETURN(
        postgres::ResultRows row,
        db.Query(std::string("UPDATE gpulens_budget SET limit_micros = $2 WHERE name = $1 RETURNING "
                             "limit_micros, spent_micros, leased_micros, window_ms, ") +
                     kNowMs,
                 Values{call.budget, std::to_string(call.limit)}));
    if (!row.Step()) return Status{Code::kDataLoss, "the budget has no row"};
    EngineBudget budget{row.Int(0), row.Int(1), row.Int(2), row.Int(3)};
    const int64_t now_ms = row.Int(4);
    ASSIGN_OR_RETURN(const EngineHolders before, Holders(call, BeginsWindow(call, budget, now_ms)));
    EngineHolders after = before;
    const LeaseReply reply = ApplyLeaseCall(call, now_ms, budget, after);
    RETURN_IF_ERROR(Store(call.budget, before, after));
    RETURN_IF_ERROR(db.Run(
        "UPDATE gpulens_budget SET spent_micros = $2, leased_micros = $3, window_ms = $4 WHERE name = $1",
        Values{call.budget, std::to_string(budget.spent), std::to_string(budget.leased),
               std::to_string(budget.window_ms)}));
    RETURN_IF_ERROR(db.Run("COMMIT"));
    return reply;
  }

  Result<EngineHolders> Holders(const LeaseCall& call, bool all) const {
    std::string sql =
        "SELECT replica, fence, amount_micros, spent_micros, sequence, expires_ms, lapsed_micros FROM "
        "gpulens_budget_lease WHERE budget = $1";
    Values values{call.budget};
    if (!all) {
      sql += " AND replica = $2 AND fence = $3";
      values.insert(values.end(), {call.replica, std::to_string(call.fence)});
    }
    ASSIGN_OR_RETURN(postgres::ResultRows rows, connection_->Query(sql, values));
    EngineHolders out;
    while (rows.Step()) {
      out[{std::string(rows.Text(0)), rows.Int(1)}] = {.amount = rows.Int(2),
                                                       .spent = rows.Int(3),
                                                       .sequence = rows.Int(4),
                                                       .expires_ms = rows.Int(5),
                                                       .lapsed = rows.Int(6)};
    }
    return out;
  }

  Status Store(const std::string& budget, const EngineHolders& before, const EngineHolders& after) const {
    for (const auto& [who, holder] : before) {
      if (after.contains(who)) continue;
      RETURN_IF_ERROR(connection_->Run(
          "DELETE FROM gpulens_budget_lease WHERE budget = $1 AND replica = $2 AND fence = $3",
          Values{budget, who.first, std::to_string(who.second)}));
    }
    for (const auto& [who, holder] : after) {
      const auto old = before.find(who);
      if (old != before.end() && old->second == holder) continue;
      RETURN_IF_ERROR(connection_->Run(
          "INSERT INTO gpulens_budget_lease VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (budget, "
          "replica, fence) "
          "DO UPDATE SET amount_micros = excluded.amount_micros, spent_micros = excluded.spent_micros, "
          "sequence = "
          "excluded.sequence, expires_ms = excluded.expires_ms, lapsed_micros = excluded.lapsed_micros",
          Values{budget, who.first, std::to_string(who.second), std::to_string(holder.amount),
                 std::to_string(holder.spent), std::to_string(holder.sequence),
                 std::to_string(holder.expires_ms), std::to_string(holder.lapsed)}));
    }
    return Ok();
  }

  const std::string url_;
  std::optional<postgres::Connection> connection_;
};

}  // namespace

Result<std::unique_ptr<BudgetEngine>> OpenPostgresEngine(const std::string& url) {
  return std::unique_ptr<BudgetEngine>(new PostgresEngine(url));
}

Result<std::unique_ptr<BudgetEngine>> OpenBudgetEngine(const std::string& url,
                                                       const std::string& tenant_tag) {
  if (postgres::IsUrl(url)) return OpenPostgresEngine(url);
  return OpenRedisEngine(url, tenant_tag);
}

}  // namespace gpulens::proxy

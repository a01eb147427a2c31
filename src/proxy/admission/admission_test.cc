#include "proxy/admission/admission.h"

#include <gtest/gtest.h>

#include <thread>

namespace gpulens::proxy {
namespace {

const Instant kToday{.boot_ns = 5'000'000'000, .unix_ns = 1'795'780'800'000'000'000};

VirtualKey KeyOf(const std::string& id, const std::string& tenant) {
  VirtualKey key;
  key.id = id;
  key.tenant = tenant;
  return key;
}

BudgetSpec BudgetOf(const std::string& name, int64_t limit) {
  BudgetSpec spec;
  spec.name = name;
  spec.limit_pico = limit;
  spec.mode = BudgetMode::kHard;
  return spec;
}

AdmissionRequest RequestOf(int64_t pico) {
  AdmissionRequest request;
  request.model = "gpt-5.6-sol";
  request.provider = "openai";
  request.cost = {.expected_pico = pico, .most_pico = pico};
  return request;
}

class Admissions : public ::testing::Test {
 protected:
  void Load(const std::vector<VirtualKey>& keys, const std::vector<BudgetSpec>& budgets) {
    std::string text(kKeyColumns);
    for (const VirtualKey& key : keys) {
      const NewKey made = *MakeKey(key);
      text += "\n" + made.line;
      secrets_[key.id] = made.key;
    }
    text_ = text;
    const Status loaded = admission_.Reload(*KeyTable::Parse(text, "keys.tsv"), budgets);
    ASSERT_TRUE(loaded) << loaded.detail;
  }
  ClientRef Of(const std::string& id) { return admission_.Authenticate(secrets_[id], kToday).client; }
  RefusalReason Refused(const std::string& id, const AdmissionRequest& request) {
    const auto decision = admission_.Admit(*Of(id), request, kToday);
    EXPECT_TRUE(decision.refused);
    EXPECT_EQ(admission_.budgets().held_pico(), 0);
    return decision.refused ? decision.refused->reason : RefusalReason::kNoKey;
  }

  Admission admission_;
  std::map<std::string, std::string> secrets_;
  std::string text_;
};

TEST_F(Admissions, KeysAreAuthenticated) {
  VirtualKey revoked = KeyOf("gone", "a"), expired = KeyOf("old", "a");
  revoked.revoked = true;
  expired.expires_unix_ns = kToday.unix_ns;
  EXPECT_EQ(admission_.Authenticate("gpl_a_x", kToday).refused->reason, RefusalReason::kBadKey)
      << "before any file";
  Load({KeyOf("k", "a"), revoked, expired}, {});
  EXPECT_EQ(Of("k")->key->id, "k");
  const auto reason = [&](const std::string& key) {
    return admission_.Authenticate(key, kToday).refused->reason;
  };
  EXPECT_EQ(reason(""), RefusalReason::kNoKey);
  EXPECT_EQ(reason("gpl_k_" + std::string(43, 'x')), RefusalReason::kBadKey);
  EXPECT_EQ(reason(secrets_["gone"]), RefusalReason::kRevokedKey);
  EXPECT_EQ(reason(secrets_["old"]), RefusalReason::kExpiredKey);
  // X1: what a client reads has no part of what it sent.
  const std::string wrong = "gpl_k_" + std::string(43, 'Q');
  EXPECT_EQ(admission_.Authenticate(wrong, kToday).refused->message.find('Q'), std::string::npos);
  EXPECT_EQ(admission_.refusals()[static_cast<size_t>(RefusalReason::kBadKey)], 3u);
}

TEST_F(Admissions, ModelsRatesAndBudgetsRefuseInThisOrder) {
  VirtualKey key = KeyOf("k", "a");
  key.models = {"gpt-*"};
  key.requests_per_minute = 2;
  key.tokens_per_minute = 1000;
  key.streams = 1;
  key.own_budgets = {{100, *ParseBudgetWindow("day")}};
  Load({key}, {BudgetOf("all", 1000)});
  AdmissionRequest request = RequestOf(10);
  request.model = "claude-opus-5";
  EXPECT_EQ(Refused("k", request), RefusalReason::kModelNotAllowed);
  request.model = "gpt-5.6-sol";
  request.tokens = 2000;
  EXPECT_EQ(Refused("k", request), RefusalReason::kRequestTooLarge);
  request.tokens = 10;
  request.cost = {.expected_pico = 101, .most_pico = 101};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Refused("k", request), RefusalReason::kBudget) << "and uses no rate";
  request.cost = {.expected_pico = 10, .most_pico = 10};
  request.stream = true;
  auto first = admission_.Admit(*Of("k"), request, kToday);
  ASSERT_FALSE(first.refused);
  EXPECT_EQ(admission_.Admit(*Of("k"), request, kToday).refused->reason, RefusalReason::kStreams);
  EXPECT_TRUE(first.grant.Settle(7, 12, kToday));
  EXPECT_FALSE(first.grant.Settle(7, 12, kToday));
  {
    const auto dropped = admission_.Admit(*Of("k"), request, kToday);
  }
  const auto limited = admission_.Admit(*Of("k"), request, kToday);
  EXPECT_EQ(limited.refused->reason, RefusalReason::kRequestRate);
  EXPECT_EQ(RetryAfterSeconds(limited.refused->retry_after_ns), 30);
  EXPECT_EQ(admission_.budgets().View("key:k:day", kToday)->spent_pico, 7);
  EXPECT_EQ(admission_.budgets().View("all", kToday)->spent_pico, 7);
  EXPECT_EQ(admission_.budgets().held_pico(), 0);
}

TEST_F(Admissions, AGrantReservesTheBoundWhereABudgetIsHard) {
  BudgetSpec hard = BudgetOf("hard", 1000), soft = BudgetOf("soft", 1000);
  hard.mode = BudgetMode::kHard;
  soft.mode = BudgetMode::kSoft;
  AdmissionRequest request = RequestOf(10);
  request.cost = {.expected_pico = 10, .most_pico = 40};
  Load({KeyOf("k", "a")}, {soft});
  EXPECT_EQ(admission_.Admit(*Of("k"), request, kToday).grant.reserved_pico(), 10);
  Load({KeyOf("k", "a")}, {soft, hard});
  Admission::Decision both = admission_.Admit(*Of("k"), request, kToday);
  const Grant moved = std::move(both.grant);
  EXPECT_EQ(moved.reserved_pico(), 40);
}

TEST_F(Admissions, BudgetsCountForTheRequestsThatTheyName) {
  VirtualKey lists = KeyOf("lists", "b");
  lists.budgets = {"pool"};
  VirtualKey web = KeyOf("web", "a");
  web.project = "web";
  BudgetSpec tenant = BudgetOf("tenant", 1000), project = BudgetOf("project", 1000),
             pool = BudgetOf("pool", 1000), models = BudgetOf("models", 5), one_key = BudgetOf("one", 1000);
  tenant.tenants = {"a"};
  project.projects = {"we*"};
  pool.listed_only = true;
  models.providers = {"openai"};
  models.models = {"o3*"};
  one_key.keys = {"other"};
  Load({KeyOf("other", "a"), web, lists}, {BudgetOf("global", 1000), tenant, project, pool, models, one_key});
  for (const char* id : {"other", "web", "lists"})
    admission_.Admit(*Of(id), RequestOf(10), kToday).grant.Settle(10, 0, kToday);
  const auto spent = [&](const char* name) { return admission_.budgets().View(name, kToday)->spent_pico; };
  EXPECT_EQ(spent("global"), 30);
  EXPECT_EQ(spent("tenant"), 20);
  EXPECT_EQ(spent("project"), 10);
  EXPECT_EQ(spent("pool"), 10);
  EXPECT_EQ(spent("one"), 10);
  EXPECT_EQ(spent("models"), 0);
  AdmissionRequest request = RequestOf(10);
  request.model = "o3-mini";
  EXPECT_EQ(Refused("web", request), RefusalReason::kBudget);
  request.provider = "azure";
  EXPECT_FALSE(admission_.Admit(*Of("web"), request, kToday).refused);
}

// X6.
TEST_F(Admissions, AKeyWithABudgetReachesMeteredRoutesOnly) {
  VirtualKey budgeted = KeyOf("budgeted", "a"), free = KeyOf("free", "b"), pooled = KeyOf("pooled", "c");
  budgeted.own_budgets = {{100, {}}};
  free.allow_unmetered = {"/v1/files", "/v1/batches/"};
  pooled.allow_unmetered = {"/v1/files"};
  BudgetSpec tenant = BudgetOf("c", 10);
  tenant.tenants = {"c"};
  Load({budgeted, free, pooled}, {tenant});
  for (const char* path : {"/v1/files", "/v1/assistants", "/v1/threads", "/v1/evals", "/v1/fine_tuning/jobs",
                           "/v1/vector_stores", "/v1/containers", "/v1/conversations", "/v1/videos",
                           "/v1/uploads", "/v1/organization/usage", "/", "", "/x"}) {
    EXPECT_EQ(admission_.RefuseUnmetered(*Of("budgeted"), path)->reason, RefusalReason::kRouteNotMetered)
        << path;
    EXPECT_TRUE(admission_.RefuseUnmetered(*Of("pooled"), path)) << "a budget of the tenant, too: " << path;
  }
  EXPECT_FALSE(admission_.RefuseUnmetered(*Of("free"), "/v1/files"));
  EXPECT_FALSE(admission_.RefuseUnmetered(*Of("free"), "/v1/files/file-1/content"));
  EXPECT_FALSE(admission_.RefuseUnmetered(*Of("free"), "/v1/batches/b"));
  EXPECT_TRUE(admission_.RefuseUnmetered(*Of("free"), "/v1/files_of_others"));
  EXPECT_TRUE(admission_.RefuseUnmetered(*Of("free"), "/v1/threads"));
}

TEST_F(Admissions, AReloadChangesEverythingOrNothing) {
  VirtualKey key = KeyOf("k", "a");
  key.requests_per_minute = 1;
  Load({key}, {BudgetOf("all", 100)});
  const ClientRef client = Of("k");
  auto open = admission_.Admit(*client, RequestOf(60), kToday);
  EXPECT_FALSE(admission_.Reload(*KeyTable::Parse(text_, "keys.tsv"), {BudgetOf("b", 1), BudgetOf("b", 1)}));
  EXPECT_FALSE(admission_.Reload(*KeyTable::Parse(text_, "keys.tsv"), {BudgetOf("key:x", 1)}));
  VirtualKey lists = KeyOf("l", "a");
  lists.budgets = {"none"};
  EXPECT_FALSE(
      admission_.Reload(*KeyTable::Parse(std::string(kKeyColumns) + "\n" + KeyLine(lists), "f"), {}));
  std::vector<BudgetSpec> many;
  for (int i = 0; i < 9; ++i) many.push_back(BudgetOf("b" + std::to_string(i), 1));
  EXPECT_FALSE(admission_.Reload(*KeyTable::Parse(text_, "keys.tsv"), many));
  EXPECT_EQ(Of("k")->key->id, "k") << "all of these changed nothing";
  EXPECT_FALSE(admission_.budgets().View("b0", kToday));

  const std::string before = secrets_["k"];
  key.requests_per_minute = 5;
  Load({key}, {BudgetOf("all", 100)});
  EXPECT_FALSE(admission_.Authenticate(before, kToday).client) << "the secret was replaced";
  EXPECT_EQ(client->key->requests_per_minute, 1) << "open requests keep theirs";
  EXPECT_EQ(admission_.Admit(*Of("k"), RequestOf(1), kToday).refused->reason, RefusalReason::kRequestRate)
      << "what is used stays used";
  const Instant later = kToday + std::chrono::minutes(5);
  EXPECT_EQ(admission_.Admit(*Of("k"), RequestOf(60), later).refused->reason, RefusalReason::kBudget)
      << "what the old table's request holds is held here";
  open.grant.Settle(30, 0, later);
  EXPECT_FALSE(admission_.Admit(*Of("k"), RequestOf(70), later).refused);
  Load({}, {});
  EXPECT_EQ(admission_.keys(), 0u);
  EXPECT_EQ(client->key->id, "k");
}

TEST_F(Admissions, RequestsGoOnWhileKeysAreReloaded) {
  VirtualKey key = KeyOf("k", "a");
  key.own_budgets = {{kMostLimitPico, {}}};
  Load({key}, {BudgetOf("all", kMostLimitPico)});
  std::atomic<bool> over{false};
  std::atomic<int64_t> spent{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!over) {
        const auto client = admission_.Authenticate(secrets_.at("k"), kToday).client;
        ASSERT_TRUE(client);
        auto one = admission_.Admit(*client, RequestOf(10), kToday);
        ASSERT_FALSE(one.refused);
        if (one.grant.Settle(3, 0, kToday)) spent += 3;
      }
    });
  }
  for (int i = 0; i < 200; ++i)
    ASSERT_TRUE(admission_.Reload(*KeyTable::Parse(text_, "keys.tsv"), {BudgetOf("all", kMostLimitPico)}));
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admission_.budgets().View("all", kToday)->spent_pico, spent.load());
  EXPECT_EQ(admission_.budgets().View("key:k:month", kToday)->spent_pico, spent.load());
  EXPECT_EQ(admission_.budgets().held_pico(), 0);
}

TEST(Refusals, HaveNames) {
  for (size_t i = 0; i < kRefusalReasons; ++i)
    EXPECT_FALSE(RefusalName(static_cast<RefusalReason>(i)).empty());
  EXPECT_EQ(RefusalName(RefusalReason::kBudgetEngine), "budget_engine");
  EXPECT_EQ(RefusalName(RefusalReason::kRequestTooLarge), "request_too_large");
}

}  // namespace
}  // namespace gpulens::proxy

#include "proxy/admission/keys.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "base/testing/allocations.h"
#include "base/testing/temp_folder.h"

namespace gpulens::proxy {
namespace {

constexpr int64_t kNow = 1'790'000'000'000'000'000;
const std::string kCorpus = GPULENS_SOURCE_DIR "/src/proxy/admission/testdata/virtual_keys_corpus/";

VirtualKey Settings(const std::string& id) {
  VirtualKey key;
  key.id = id;
  key.tenant = "a";
  return key;
}

KeyTable TableOf(const std::vector<NewKey>& keys) {
  std::string text(kKeyColumns);
  for (const NewKey& key : keys) text += "\n" + key.line;
  auto table = KeyTable::Parse(text, "keys.tsv");
  EXPECT_TRUE(table) << table.status().detail;
  return std::move(*table);
}

TEST(Keys, AMadeKeyIsVerifiedAndItsSecretIsNotInTheLine) {
  const NewKey made = *MakeKey(Settings("team-a"));
  EXPECT_TRUE(made.key.starts_with("gpl_team-a_"));
  EXPECT_EQ(made.key.size(), std::string("gpl_team-a_").size() + 43);
  const std::string secret = made.key.substr(made.key.size() - 43);
  EXPECT_EQ(made.line.find(secret), std::string::npos);
  Sha256 hash;
  hash.Add(secret);
  EXPECT_NE(made.line.find(hash.Finish()), std::string::npos) << "as sha256sum prints it";
  const KeyTable table = TableOf({made, *MakeKey(Settings("team-b"))});
  EXPECT_EQ(table.Verify(made.key, kNow).outcome, KeyOutcome::kValid);
  EXPECT_EQ(table.Verify(made.key, kNow).key->id, "team-a");
  EXPECT_NE(MakeKey(Settings("team-a"))->key, made.key);
}

TEST(Keys, AnIdMayHaveNoUnderscoreButASecretMay) {
  EXPECT_FALSE(MakeKey(Settings("a_b")));
  EXPECT_FALSE(MakeKey(Settings("")));
  EXPECT_FALSE(MakeKey(Settings(std::string(33, 'a'))));
  // Of 64 keys some have an underscore in their secret.
  for (int i = 0; i < 64; ++i) {
    const NewKey made = *MakeKey(Settings("a-1"));
    ASSERT_EQ(TableOf({made}).Verify(made.key, kNow).outcome, KeyOutcome::kValid) << i;
  }
}

TEST(Keys, OtherTextsAreUnknown) {
  const NewKey made = *MakeKey(Settings("a")), other = *MakeKey(Settings("b"));
  const KeyTable table = TableOf({made, other});
  std::string flipped = made.key;
  flipped.back() = flipped.back() == 'A' ? 'B' : 'A';
  const std::string mixed = "gpl_a" + other.key.substr(5);
  for (const std::string& text :
       {std::string(), std::string("gpl_"), std::string("sk-abc"), flipped, mixed, made.key + "x",
        "x" + made.key, made.key.substr(0, made.key.size() - 1), std::string("gpl__") + made.key.substr(6),
        std::string(100'000, 'g'), std::string("gpl_a_") + std::string(43, '0')})
    EXPECT_EQ(table.Verify(text, kNow).outcome, KeyOutcome::kUnknown) << text.substr(0, 80);
  EXPECT_EQ(KeyTable().Verify(made.key, kNow).outcome, KeyOutcome::kUnknown);
}

// X5.
TEST(Keys, AnUnknownIdCostsWhatAWrongSecretDoes) {
  const NewKey made = *MakeKey(Settings("known"));
  const KeyTable table = TableOf({made});
  const auto work_of = [&](const std::string& key) {
    KeyWork work;
    table.Verify(key, kNow, &work);
    return work;
  };
  const KeyWork right = work_of(made.key);
  EXPECT_EQ(right, (KeyWork{.digests = 1, .digested_bytes = 43, .compared_bytes = 32}));
  EXPECT_EQ(work_of("gpl_known_" + std::string(43, 'x')), right);
  EXPECT_EQ(work_of("gpl_unknown_" + std::string(43, 'x')), right);
  EXPECT_EQ(work_of("gpl_known_short"), right);
  EXPECT_EQ(work_of("Bearer of news"), right);
}

TEST(Keys, ExpiredAndRevokedKeysAreKnownOnlyWithTheirSecret) {
  VirtualKey settings = Settings("old");
  settings.expires_unix_ns = kNow;
  const NewKey old = *MakeKey(settings);
  settings = Settings("gone");
  settings.revoked = true;
  const NewKey gone = *MakeKey(settings);
  const KeyTable table = TableOf({old, gone});
  EXPECT_EQ(table.Verify(old.key, kNow - 1).outcome, KeyOutcome::kValid);
  EXPECT_EQ(table.Verify(old.key, kNow).outcome, KeyOutcome::kExpired);
  EXPECT_EQ(table.Verify(gone.key, kNow).outcome, KeyOutcome::kRevoked);
  const std::string guess(43, 'x');
  EXPECT_EQ(table.Verify("gpl_old_" + guess, kNow).outcome, KeyOutcome::kUnknown);
  EXPECT_EQ(table.Verify("gpl_gone_" + guess, kNow).outcome, KeyOutcome::kUnknown);
}

TEST(Keys, ALineHasEverySetting) {
  const std::string digest(64, 'a');
  const auto table = KeyTable::Parse(
      "tenant\tid\tsha256\tproject\tmodels\tbudgets\trpm\ttpm\tstreams\tprofile\texpires\tdefault_max_"
      "tokens\r\n"
      "# a comment\r\n\r\n"
      "acme\tk1\t" +
          digest +
          "\tweb\tgpt-*, claude-opus-5\tteam,25.50/month,1/5h\t60\t100000\t4\tbyok\t2027-01-31\t4096\r\n"
          "acme\tk2\t" +
          digest + "\n",
      "keys.tsv");
  ASSERT_TRUE(table) << table.status().detail;
  const VirtualKey& key = *table->Find("k1");
  EXPECT_EQ(key.tenant, "acme");
  EXPECT_EQ(key.project, "web");
  EXPECT_TRUE(key.AllowsModel("gpt-5.6-sol"));
  EXPECT_TRUE(key.AllowsModel("claude-opus-5"));
  EXPECT_FALSE(key.AllowsModel("claude-opus-5-fast"));
  EXPECT_EQ(key.budgets, std::vector<std::string>{"team"});
  ASSERT_EQ(key.own_budgets.size(), 2u);
  EXPECT_EQ(key.own_budgets[0].limit_pico, 25'500'000'000'000);
  EXPECT_EQ(BudgetWindowText(key.own_budgets[1].window), "5h");
  EXPECT_EQ(key.requests_per_minute, 60);
  EXPECT_EQ(key.tokens_per_minute, 100'000);
  EXPECT_EQ(key.streams, 4);
  EXPECT_EQ(key.profile, pricing::Profile::kByok);
  EXPECT_EQ(key.expires_unix_ns, 1'801'353'600'000'000'000);
  EXPECT_EQ(key.default_max_tokens, 4096);
  EXPECT_TRUE(table->Find("k2")->AllowsModel("anything"));
  EXPECT_EQ(table->Find("k3"), nullptr);
}

TEST(Keys, BadFilesAreRefusedWithTheirLine) {
  // Each file's name is a part of what is wrong; none of their messages has a secret.
  size_t files = 0;
  ASSERT_TRUE(ForEachName(kCorpus, [&](std::string_view name) {
    const std::string text = *ReadFile(kCorpus + std::string(name));
    const auto table = KeyTable::Parse(text, "f");
    if (!name.starts_with("bad_")) {
      EXPECT_TRUE(table) << name << ": " << table.status().detail;
    } else {
      EXPECT_FALSE(table) << name;
      if (!table) {
        EXPECT_EQ(table.error().detail.find("f:"), 0u) << name << ": " << table.error().detail;
        EXPECT_EQ(table.error().detail.find("SECRET"), std::string::npos) << table.error().detail;
      }
    }
    return ++files, true;
  }));
  EXPECT_GE(files, 12u);
  const auto typo = KeyTable::Parse("id\tsha256\ttenant\tmodel\n", "keys.tsv");
  EXPECT_EQ(typo.error().detail, "keys.tsv:1: unknown column \"model\"; did you mean models?");
}

TEST(Keys, TenThousandAreFoundWithoutAllocation) {
  std::string text = "id\tsha256\ttenant\n";
  for (int i = 0; i < 10'000; ++i) text += "key-" + std::to_string(i) + "\t" + std::string(64, 'b') + "\ta\n";
  const auto table = KeyTable::Parse(text, "keys.tsv");
  ASSERT_TRUE(table) << table.status().detail;
  const uint64_t before = ThreadAllocations();
  size_t found = 0;
  for (int i = 0; i < 10'000; i += 7)
    found += table->Find(table->keys()[static_cast<size_t>(i)].id) != nullptr;
  found += table->Find("key-10000") != nullptr;
  EXPECT_EQ(ThreadAllocations(), before);
  EXPECT_EQ(found, 1429u);
}

TEST(Keys, AFileThatOthersMayReadIsRefused) {
  const gpulens::testing::TempFolder folder;
  const std::string path = folder.Write("keys.tsv", std::string(kKeyColumns) + "\n");
  for (const mode_t mode : {0400u, 0440u, 0600u, 0640u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_TRUE(CheckSecretFile(path)) << mode;
  }
  for (const mode_t mode : {0644u, 0660u, 0604u, 0602u, 0700u}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_EQ(CheckSecretFile(path).code, Code::kPermissionDenied) << mode;
    EXPECT_FALSE(KeyTable::Load(path));
  }
  ASSERT_EQ(::chmod(path.c_str(), 0600), 0);
  EXPECT_TRUE(KeyTable::Load(path));
  EXPECT_EQ(CheckSecretFile(folder.path()).code, Code::kPermissionDenied);
  EXPECT_EQ(CheckSecretFile(folder.path() + "/none").code, Code::kUnavailable);
}

TEST(Keys, BearerTokensAreTakenFromTheirHeader) {
  EXPECT_EQ(BearerToken("Bearer gpl_a_x"), "gpl_a_x");
  EXPECT_EQ(BearerToken("bearer  gpl_a_x "), "gpl_a_x");
  EXPECT_EQ(BearerToken("Basic gpl_a_x"), "");
  EXPECT_EQ(BearerToken("Bearer"), "");
}

TEST(Keys, CellsHaveTheRulesOfALine) {
  const KeyCell good[] = {{"id", "ada"},
                          {"tenant", "acme"},
                          {"project", ""},
                          {"models", "gpt-*,claude"},
                          {"rpm", "60"},
                          {"streams", "-"},
                          {"profile", "byoc"},
                          {"budgets", "team,25.50/month"},
                          {"expires", "2027-01-31"}};
  const auto key = KeyOf(good);
  ASSERT_TRUE(key) << key.error().detail;
  EXPECT_EQ(key->models, (std::vector<std::string>{"gpt-*", "claude"}));
  EXPECT_EQ(key->requests_per_minute, 60);
  EXPECT_EQ(key->streams, 0);
  EXPECT_EQ(key->profile, pricing::Profile::kByoc);
  EXPECT_EQ(key->own_budgets.size(), 1u);
  EXPECT_EQ(key->digest, SecretDigest{});
  const auto wrong = [](KeyCell cell) {
    const KeyCell cells[] = {{"id", "ada"}, {"tenant", "acme"}, cell};
    const auto read = KeyOf(cells);
    return read ? std::string("accepted") : read.error().detail;
  };
  EXPECT_EQ(wrong({"rpm", "0"}), "rpm must be a whole number from 1 to 10^12, not \"0\"");
  EXPECT_EQ(wrong({"id", "a b"}), "the id must have 1 to 32 letters, digits and hyphens");
  EXPECT_EQ(wrong({"models", "a\tb"}), "models has a tab, a line break or bytes that are not UTF-8");
  EXPECT_EQ(wrong({"profile", "free"}), "profile must be managed, byok, subscription or byoc");
  EXPECT_EQ(wrong({"budget", "x"}), "unknown column \"budget\"; did you mean budgets?");
  EXPECT_EQ(wrong({"sha256", "12"}),
            "sha256 must be 64 hexadecimal digits: those of the secret, not the secret");
}

}  // namespace
}  // namespace gpulens::proxy

#include "sources/torch_recorder/recorder_dump.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/files.h"
#include "sources/torch_recorder/pickle_json.h"

namespace gpulens::torch_recorder {
namespace {

using std::string_literals::operator""s;

std::string Json(const std::string& pickle) {
  const auto json = PickleAsJson(pickle);
  return json.ok() ? *json : json.error().detail;
}

// The dumps of testdata/dumps, which tests/inject/recorder_dumps.py writes.
std::vector<RecorderDump> Dumps(const std::string& name, int ranks = 4) {
  std::vector<RecorderDump> dumps;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto bytes =
        ReadFile("src/sources/torch_recorder/testdata/dumps/" + name + "_" + std::to_string(rank), 1u << 20);
    if (!bytes.ok()) {
      ADD_FAILURE() << bytes.error().detail;
      return {};
    }
    auto dump = ParseRecorderDump(*bytes);
    if (!dump.ok()) {
      ADD_FAILURE() << dump.error().detail;
      return {};
    }
    dump->rank = rank;
    dumps.push_back(*std::move(dump));
  }
  return dumps;
}

TEST(PickleAsJson, EachKindOfValue) {
  EXPECT_EQ(Json("\x80\x02N."s), "null");
  EXPECT_EQ(Json("\x80\x02]."s), "[]");
  EXPECT_EQ(Json("\x80\x02](\x88\x89K\x05M\x00\x01J\xff\xff\xff\xff\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10"
                 "e."s),
            "[true,false,5,256,-1,1152921504606846976]");
  EXPECT_EQ(Json("\x80\x02\x8a\x02\x00\xff."s), "-256");
  EXPECT_EQ(Json("\x80\x02\x8a\x00."s), "0");
  EXPECT_EQ(Json("\x80\x02G\x3f\xe0\x00\x00\x00\x00\x00\x00."s), "0.5");
  EXPECT_EQ(Json("\x80\x02G\x7f\xf0\x00\x00\x00\x00\x00\x00."s), "null");
  EXPECT_EQ(Json("\x80\x02}(X\x01\x00\x00\x00"
                 "aq\x00"
                 "K\x01X\x01\x00\x00\x00\"(K\x02K\x03tu."s),
            "{\"a\":1,\"\\\"\":[2,3]}");
  EXPECT_EQ(Json("\x80\x02](X\x01\x00\x00\x00"
                 "xq\x00h\x00"
                 "e."s),
            "[\"x\",\"x\"]");
  // Of Python: a frame, short texts, MEMOIZE, integers as keys.
  EXPECT_EQ(Json("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00}\x94K\x07\x8c\x01y\x94s."s), "{\"7\":\"y\"}");
  EXPECT_EQ(Json("\x80\x02K\x01K\x02\x86."s), "[1,2]");
}

TEST(PickleAsJson, WhatMakesObjectsIsRefused) {
  EXPECT_EQ(Json("cos\nsystem\n(S'true'\ntR."), "pickle: opcode 0x63, which is not plain data, at byte 0");
  EXPECT_EQ(Json("\x80\x04\x8c\x02os\x8c\x06system\x93."s),
            "pickle: opcode 0x93, which is not plain data, at byte 14");
  for (const char* opcode : {"R", "b", "o", "i", "\x81", "\x92", "P", "Q", "\x82", "I1\n"})
    EXPECT_FALSE(PickleAsJson(opcode).ok()) << opcode;
}

TEST(PickleAsJson, BrokenOnes) {
  EXPECT_EQ(Json(""), "pickle: no end at byte 0");
  EXPECT_EQ(Json("."), "pickle: not one value at its end at byte 0");
  EXPECT_EQ(Json("NN."), "pickle: not one value at its end at byte 2");
  EXPECT_EQ(Json("(."), "pickle: not one value at its end at byte 1");
  EXPECT_EQ(Json("X\xff\xff\xff\xffz."s), "pickle: cut short at byte 0");
  EXPECT_EQ(Json("Na."), "pickle: nothing to add to at byte 1");
  EXPECT_EQ(Json("](e(u."), "pickle: nothing to add to at byte 4");
  EXPECT_EQ(Json("}(Nu."), "pickle: a key without a value at byte 3");
  EXPECT_EQ(Json("e."), "pickle: no mark at byte 0");
  EXPECT_EQ(Json("h\x05."s), "pickle: a reference to nothing at byte 0");
  EXPECT_EQ(Json("\x8a\x0c."s), "pickle: an integer of more than 64 bits at byte 0");
  EXPECT_EQ(Json("}NNs."), "pickle: a key that is no text");
}

TEST(PickleAsJson, ItDoesNotGrow) {
  // Ten lists, each of ten times the one before: 10^10 values, were they written.
  std::string laughs = "]q"s + '\0';
  for (char i = 1; i <= 10; ++i) {
    laughs += "](";
    for (int n = 0; n < 10; ++n) laughs += "h"s + static_cast<char>(i - 1);
    laughs += "eq"s + i;
  }
  EXPECT_FALSE(PickleAsJson(laughs + "h\x0a."s).ok());
  std::string last = laughs;
  last.insert(0, "(");
  EXPECT_EQ(Json(last + "t."), "pickle: larger than 32 times itself as JSON");
  // A list in itself.
  EXPECT_EQ(Json("]q\x00h\x00"
                 "a."s),
            "pickle: nested deeper than 32");
  EXPECT_FALSE(PickleAsJson(std::string(100'000, ']')).ok());
}

TEST(RecorderDump, OfPyTorch) {
  const auto dumps = Dumps("not_started");
  ASSERT_EQ(dumps.size(), 4U);
  const RecorderDump& first = dumps[0];
  EXPECT_EQ(first.version, "2.10");
  ASSERT_EQ(first.entries.size(), 12U);  // without the send
  const RecorderEntry& last = first.entries.back();
  EXPECT_EQ(last.group, "0");
  EXPECT_EQ(last.group_description, "default_pg");
  EXPECT_EQ(last.sequence, 12U);
  EXPECT_EQ(last.name, "nccl:all_reduce");
  EXPECT_EQ(last.state, EntryState::kStarted);
  EXPECT_EQ(last.created_unix_ns, 1'790'000'000'012'000'000);
  EXPECT_EQ(last.input_sizes, "[[64,4]]");
  EXPECT_EQ(last.input_types, "[Float]");
  EXPECT_EQ(first.members.at("0"), (std::vector<int>{0, 1, 2, 3}));
}

TEST(RecorderDump, AllFormsAreEqual) {
  for (const char* form : {"python", "json"}) {
    const auto dumps = Dumps(form), expected = Dumps("complete");
    ASSERT_EQ(dumps.size(), expected.size());
    for (size_t i = 0; i < dumps.size(); ++i) {
      ASSERT_EQ(dumps[i].entries.size(), expected[i].entries.size());
      EXPECT_EQ(dumps[i].entries.back().name, expected[i].entries.back().name);
      EXPECT_EQ(dumps[i].entries.back().created_unix_ns, expected[i].entries.back().created_unix_ns);
      EXPECT_EQ(dumps[i].members, expected[i].members);
    }
  }
}

TEST(RecorderDump, WhatIsNone) {
  EXPECT_EQ(ParseRecorderDump("{}").error().code, Code::kDataLoss);
  EXPECT_EQ(ParseRecorderDump("{\"entries\": [").error().code, Code::kDataLoss);
  EXPECT_EQ(ParseRecorderDump("").error().code, Code::kDataLoss);
  EXPECT_EQ(ParseRecorderDump("\x7f"
                              "ELF")
                .error()
                .code,
            Code::kDataLoss);
  const auto odd = ParseRecorderDump(
      R"({"version": 7, "entries": [5, {"collective_seq_id": -1}, {"seq_id": 3, "state": [], "process_group": "x"}], "pg_config": 1})");
  ASSERT_TRUE(odd.ok()) << odd.error().detail;
  ASSERT_EQ(odd->entries.size(), 1U);
  EXPECT_EQ(odd->entries[0].sequence, 3U);
}

TEST(RecorderDump, RankOfAFile) {
  EXPECT_EQ(RankOfFile("/tmp/comm_lib_trace_rank_17"), 17);
  EXPECT_EQ(RankOfFile("trace3.json"), 3);
  EXPECT_EQ(RankOfFile("trace"), std::nullopt);
  EXPECT_EQ(RankOfFile("rank_99999999999999999999"), std::nullopt);
}

TEST(FirstMismatch, TheRankThatDidNotCall) {
  const auto finding = FindFirstMismatch(Dumps("not_called"));
  EXPECT_EQ(finding.mismatch, Mismatch::kNotCalled);
  EXPECT_EQ(finding.sequence, 12U);
  EXPECT_EQ(finding.name, "nccl:all_reduce");
  EXPECT_EQ(finding.culprits, std::vector<int>{3});
  EXPECT_EQ(finding.waiting, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(finding.absent.empty());
}

TEST(FirstMismatch, TheRankThatCalledSomethingElse) {
  const auto finding = FindFirstMismatch(Dumps("different"));
  EXPECT_EQ(finding.mismatch, Mismatch::kDifferent);
  EXPECT_EQ(finding.culprits, std::vector<int>{3});
  EXPECT_EQ(finding.waiting, (std::vector<int>{0, 1, 2}));
  EXPECT_NE(finding.detail.find("nccl:reduce_scatter"), std::string::npos) << finding.detail;
}

TEST(FirstMismatch, TheRankWhoseGpuHasNotStarted) {
  const auto finding = FindFirstMismatch(Dumps("not_started"));
  EXPECT_EQ(finding.mismatch, Mismatch::kNotStarted);
  EXPECT_EQ(finding.culprits, std::vector<int>{3});
}

TEST(FirstMismatch, NoRankOfThoseThatAllStarted) {
  const auto finding = FindFirstMismatch(Dumps("not_ended"));
  EXPECT_EQ(finding.mismatch, Mismatch::kNotEnded);
  EXPECT_TRUE(finding.culprits.empty());
  EXPECT_EQ(finding.waiting.size(), 4U);
}

TEST(FirstMismatch, NoneWhereAllIsComplete) {
  EXPECT_EQ(FindFirstMismatch(Dumps("complete")).mismatch, Mismatch::kNone);
  EXPECT_EQ(FindFirstMismatch({}).mismatch, Mismatch::kNone);
}

TEST(FirstMismatch, ARankWithoutADumpIsNotBlamed) {
  auto dumps = Dumps("not_called");
  dumps.erase(dumps.begin() + 1);
  const auto finding = FindFirstMismatch(dumps);
  EXPECT_EQ(finding.culprits, std::vector<int>{3});
  EXPECT_EQ(finding.absent, std::vector<int>{1});
}

TEST(FirstMismatch, WhatARingHasForgottenIsNotMissing) {
  auto dumps = Dumps("complete");
  // Rank 2 called more, and its ring has the last three alone.
  auto& entries = dumps[2].entries;
  entries.erase(entries.begin(), entries.end() - 3);
  EXPECT_EQ(FindFirstMismatch(dumps).mismatch, Mismatch::kNone);
}

TEST(FirstMismatch, TheEarliestOfTwoGroups) {
  auto dumps = Dumps("not_called");
  for (RecorderDump& dump : dumps) {
    RecorderEntry later = dump.entries.back();
    later.group = "1", later.sequence = 1, later.created_unix_ns += 1'000'000'000;
    later.state = dump.rank == 0 ? EntryState::kScheduled : EntryState::kStarted;
    dump.entries.push_back(later);
  }
  const auto finding = FindFirstMismatch(dumps);
  EXPECT_EQ(finding.group, "0");
  EXPECT_EQ(finding.culprits, std::vector<int>{3});
}

}  // namespace
}  // namespace gpulens::torch_recorder

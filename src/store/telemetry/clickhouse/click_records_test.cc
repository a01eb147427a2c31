// The writer and the reader with a simulated server, which fails as servers do; with ClickHouse's own
// engine they are in tests/e2e/test_telemetry_clickhouse.py.
#include "store/telemetry/clickhouse/click_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/parse.h"
#include "base/text.h"
#include "net/testing/scripted_server.h"
#include "net/testing/test_client.h"

namespace gpulens::telemetry {
namespace {

using testing::Answer200;
using testing::Eventually;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::ScriptedServer;
using Turn = ScriptedServer::Turn;

struct Sent {
  std::string token, data;
};

// Has the tables, and answers INSERTs of rows by `on_rows`.
class Fake {
 public:
  Fake()
      : server_([this](int, int, const std::string& request) { return Answer(request); }),
        url_("clickhouse://u:hush-hush@" + server_.endpoint().ToString() + "/d") {}

  const std::string& url() const noexcept { return url_; }
  std::vector<Sent> rows() const { return Copy(rows_); }
  std::vector<Sent> others() const { return Copy(others_); }
  void Answers(std::function<Turn(int, const Sent&)> on_rows) {
    std::lock_guard lock(mutex_);
    on_rows_ = std::move(on_rows);
  }
  void Selects(std::string answer) {
    std::lock_guard lock(mutex_);
    selected_ = std::move(answer);
  }

 private:
  std::vector<Sent> Copy(const std::vector<Sent>& from) const {
    std::lock_guard lock(mutex_);
    return from;
  }

  Turn Answer(const std::string& request) {
    std::lock_guard lock(mutex_);
    const size_t end = request.find("\r\n\r\n") + 4;
    const std::string body = request.substr(end),
                      line = PercentDecoded(request.substr(0, request.find(" HTTP/")));
    if (line.find("&query=INSERT") != std::string::npos) {
      std::string_view token = std::string_view(line).substr(line.find("_token=") + 7);
      const Sent sent{std::string(TakeUntil(token, '&')), body};
      if (line.find("RowBinary") == std::string::npos) {
        others_.push_back(sent);
        return {Answer200("")};
      }
      rows_.push_back(sent);
      return on_rows_ ? on_rows_(static_cast<int>(rows_.size()), sent) : Turn{Answer200("")};
    }
    if (body.find("system.tables") != std::string::npos)
      return {Answer200("name\tengine\ntelemetry\tReplacingMergeTree\n")};
    if (body.find("system.columns") != std::string::npos) {
      std::string answer = "name\ttype\n";
      for (const ClickColumn& column : ClickColumns()) answer += column.name + "\t" + column.type + "\n";
      return {Answer200(answer)};
    }
    if (body.starts_with("SELECT")) return {Answer200(selected_)};
    return {Answer200("")};
  }

  mutable std::mutex mutex_;  // guards what follows
  std::function<Turn(int, const Sent&)> on_rows_;
  std::string selected_;
  std::vector<Sent> rows_, others_;
  ScriptedServer server_;
  const std::string url_;
};

std::vector<RecordRow> Calls(size_t count) {
  std::vector<RecordRow> rows(count);
  for (size_t i = 0; i < count; ++i) {
    rows[i].numbers.timestamp = 1.7e9 + static_cast<double>(i);
    rows[i].text(TextColumn::kModel) = "m";
  }
  return rows;
}

Turn Refused(const std::string& body, const std::string& status = "500 Internal Server Error") {
  return {"HTTP/1.1 " + status + "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body};
}

std::unique_ptr<ClickWriter> Opened(const Fake& fake) {
  auto writer = ClickWriter::Open(fake.url(), {});
  EXPECT_TRUE(writer.ok()) << writer.status().detail;
  return *std::move(writer);
}

TEST(ClickWriter, WritesRowsInOnePieceAndIdentifiesItself) {
  Fake fake;
  const auto writer = Opened(fake);
  const auto kept = writer->Write(Calls(1000), 0);
  ASSERT_TRUE(kept.ok()) << kept.status().detail;
  EXPECT_EQ(kept->stored, 1000u);
  ASSERT_EQ(fake.rows().size(), 1u);
  EXPECT_THAT(fake.rows()[0].data, HasSubstr("timestamp"));
  EXPECT_TRUE(writer->Close(7).ok());
  EXPECT_EQ(fake.others().size(), 2u);
  EXPECT_THAT(fake.others().back().data, HasSubstr(",1000,0,7,"));
  EXPECT_THAT(fake.others().back().data, HasSubstr("'closed'"));
}

TEST(ClickWriter, WithoutAnAnswerTheSamePieceIsSentAgain) {
  Fake fake;
  const auto writer = Opened(fake);
  fake.Answers(
      [](int number, const Sent&) { return number <= 2 ? Turn{.close = true} : Turn{Answer200("")}; });
  EXPECT_EQ(writer->Write(Calls(10), 0).status().code, Code::kDataLoss);
  EXPECT_FALSE(writer->Write(Calls(20), 0).ok()) << "it waits before it tries again";
  EXPECT_EQ(fake.rows().size(), 1u);
  const std::vector<RecordRow> rows = Calls(30);
  Result<WriteCounts> kept = Status{Code::kTimeout, ""};
  ASSERT_TRUE(Eventually([&] { return (kept = writer->Write(rows, 0)).ok(); }));
  EXPECT_EQ(kept->stored, 30u);
  const auto sent = fake.rows();
  ASSERT_EQ(sent.size(), 4u);
  for (const size_t again : {size_t{1}, size_t{2}}) {
    EXPECT_EQ(sent[again].token, sent[0].token);
    EXPECT_EQ(sent[again].data, sent[0].data);
  }
  EXPECT_NE(sent[3].token, sent[0].token);
  EXPECT_GT(sent[3].data.size(), sent[0].data.size());
}

TEST(ClickWriter, DeliveredRecordsAreNotSentAgain) {
  Fake fake;
  const auto writer = Opened(fake);
  fake.Answers([](int number, const Sent&) {
    return number == 2 ? Refused("Code: 241. DB::Exception: Memory limit") : Turn{Answer200("")};
  });
  const std::vector<RecordRow> rows = Calls(6000);
  const Status failed = writer->Write(rows, 0).status();
  EXPECT_THAT(failed.detail, HasSubstr("Memory limit"));
  EXPECT_THAT(failed.detail, Not(HasSubstr("hush")));
  Result<WriteCounts> kept = Status{Code::kTimeout, ""};
  ASSERT_TRUE(Eventually([&] { return (kept = writer->Write(rows, 0)).ok(); }));
  EXPECT_EQ(kept->stored, 6000u);
  const auto sent = fake.rows();
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[1].token, sent[2].token);
  EXPECT_LT(sent[1].data.size(), sent[0].data.size());
}

TEST(ClickWriter, OneBadRowIsFoundByHalves) {
  Fake fake;
  const auto writer = Opened(fake);
  fake.Answers([](int, const Sent& sent) {
    return sent.data.find("poison") == std::string::npos
               ? Turn{Answer200("")}
               : Refused("Code: 469. DB::Exception: Constraint `c`");
  });
  std::vector<RecordRow> rows = Calls(4000);
  rows[1234].text(TextColumn::kModel) = "poison";
  rows[2500].numbers.latency_seconds = -1;
  const auto kept = writer->Write(rows, 0);
  ASSERT_TRUE(kept.ok()) << kept.status().detail;
  EXPECT_EQ(kept->stored, 3998u);
  EXPECT_EQ(kept->rejected, 2u);
  EXPECT_LT(fake.rows().size(), 60u);
  const auto others = fake.others();
  ASSERT_EQ(others.size(), 3u);
  EXPECT_THAT(others[1].data, HasSubstr("poison"));
  EXPECT_THAT(others[1].data, HasSubstr("Constraint"));
  EXPECT_THAT(others[2].data, HasSubstr("a negative duration"));
  EXPECT_NE(others[1].token, others[2].token);
}

TEST(ClickWriter, LargeTextsGoInPiecesThatFit) {
  Fake fake;
  const auto writer = Opened(fake);
  const std::string large = "\"" + std::string(60 << 10, 'x') + "\"";
  std::vector<RecordRow> rows = Calls(300);
  for (RecordRow& row : rows) row.text(TextColumn::kMetadata) = large;
  ASSERT_TRUE(writer->Write(rows, 0).ok());
  EXPECT_GT(fake.rows().size(), 3u);
  for (const Sent& sent : fake.rows()) EXPECT_LT(sent.data.size(), size_t{5} << 20);
}

TEST(ClickWriter, ReportsARefusedLogin) {
  ScriptedServer closed([](int, int, const std::string&) {
    return Refused("Code: 516. DB::Exception: u: Authentication failed", "403 Forbidden");
  });
  const auto writer = ClickWriter::Open("clickhouse://u:hush@" + closed.endpoint().ToString(), {});
  ASSERT_FALSE(writer.ok());
  EXPECT_EQ(writer.status().code, Code::kPermissionDenied);
  EXPECT_THAT(writer.status().detail, HasSubstr("Authentication failed"));
}

TEST(ClickReader, RejectsAMalformedAnswer) {
  Fake fake;
  const auto each = [](const RecordRow&) { return true; };
  fake.Selects("many\n");
  EXPECT_EQ(CountClickRecords(fake.url()).status().code, Code::kDataLoss);
  fake.Selects("timestamp\tmodel_id\n1.7e9\tm\n1.7e9");
  EXPECT_EQ(EachClickRow(fake.url(), {}, each).code, Code::kDataLoss);
  fake.Selects("timestamp\tmodel_id\n" + std::string(3 << 20, 'x'));
  EXPECT_EQ(EachClickRow(fake.url(), {}, each).code, Code::kExhausted);
  fake.Selects("");
  EXPECT_EQ(SummarizeClick(fake.url(), {}).status().code, Code::kDataLoss);
}

TEST(ClickReader, RowsUntilItIsEnough) {
  Fake fake;
  std::string answer = "model_id\ttimestamp\tlatency_seconds\tmeasured\n";
  for (int i = 0; i < 100'000; ++i)
    answer += "m\\t\\'\t1700000000.25\t0.5\t" + std::to_string(int64_t{1} << 8) + "\n";
  fake.Selects(answer);
  int seen = 0;
  EXPECT_TRUE(EachClickRow(fake.url(), {}, [&](const RecordRow& row) {
                EXPECT_EQ(row.text(TextColumn::kModel), "m\t'");
                EXPECT_EQ(row.numbers.timestamp, 1700000000.25);
                EXPECT_EQ(row.numbers.latency_seconds, 0.5);
                return ++seen < 10;
              }).ok());
  EXPECT_EQ(seen, 10);
}

}  // namespace
}  // namespace gpulens::telemetry

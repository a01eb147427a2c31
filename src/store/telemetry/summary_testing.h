// A file of inference records for tests and benches, written row by row.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "store/sqlite/sqlite.h"
#include "store/telemetry/rollup_tables.h"
#include "store/telemetry/rows.h"
#include "store/telemetry/schema.h"

namespace gpulens::telemetry {

class WrittenFile {
 public:
  // `rollup` may be null and outlives it.
  WrittenFile(const std::string& path, RollupWriter* rollup) : rollup_(rollup) {
    auto opened = OpenToWrite(path, rollup);
    CHECK(opened);
    database_.emplace(*std::move(opened));
    std::string names = "outcome,measured", marks = "?,?";
    for (const RecordColumn& column : RecordColumns()) {
      names += "," + sqlite::Quoted(column.name);
      marks += ",?";
    }
    auto insert = database_->Prepare("INSERT INTO telemetry(" + names + ") VALUES(" + marks + ")");
    CHECK(insert);
    insert_ = *std::move(insert);
  }

  const sqlite::Database& database() const { return *database_; }

  // As one batch of a writer.
  void Insert(std::span<const RecordRow> rows) {
    auto transaction = sqlite::Transaction::Begin(*database_);
    CHECK(transaction);
    const auto before = database_->Number("SELECT ifnull(max(id), 0) FROM telemetry");
    CHECK(before);
    for (const RecordRow& row : rows) {
      BindAll(row);
      CHECK(insert_.Execute().ok());
      if (rollup_) rollup_->Add(database_->last_row_id(), row);
    }
    if (rollup_) CHECK(rollup_->Write(*database_, *before).ok());
    CHECK(transaction->Commit().ok());
    if (rollup_) rollup_->Done(true);
  }

 private:
  void BindAll(const RecordRow& row) {
    int at = 1;
    insert_.Bind(at++, OutcomeName(static_cast<Outcome>(row.numbers.outcome)));
    insert_.Bind(at++, MeasuredMask(row));
    for (const RecordColumn& column : RecordColumns())
      std::visit([&](const auto& value) { insert_.Bind(at++, value); }, StoredOf(column, row));
  }

  RollupWriter* rollup_;
  std::optional<sqlite::Database> database_;
  sqlite::Statement insert_;
};

}  // namespace gpulens::telemetry

// One analyzer at work: for the pipeline's own files.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "pipeline/pipeline.h"

namespace gpulens {

// Used only while a tick closes.
struct Pipeline::RunningAnalyzer {
  RunningAnalyzer(PipelinePlan::AnalyzerSetup analyzer_setup, std::unique_ptr<Analyzer> made,
                  SeriesTable::Options table_options, Duration ttl)
      : setup(std::move(analyzer_setup)),
        analyzer(std::move(made)),
        table(std::move(table_options)),
        writer(table, ttl, std::string(setup.spec->name)) {}
  const PipelinePlan::AnalyzerSetup setup;
  const std::unique_ptr<Analyzer> analyzer;
  SeriesTable table;
  FrameWriter writer;
  AnalyzerStats stats;
  uint64_t described = 0;  // the enrichers' generation that the table shows
};

}  // namespace gpulens

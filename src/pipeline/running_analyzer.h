// One analyzer at work: for the pipeline's own files.
#pragma once

#include <memory>
#include <string>

#include "pipeline/pipeline.h"

namespace gpulens {

// Used only while a tick closes.
struct Pipeline::RunningAnalyzer {
  RunningAnalyzer(PipelinePlan::AnalyzerSetup analyzer_setup, std::unique_ptr<Analyzer> made,
                  SeriesBudget& budget, Duration ttl)
      : setup(std::move(analyzer_setup)),
        analyzer(std::move(made)),
        table(SeriesTable::Options{&budget, UINT32_MAX, {}}),
        writer(table, ttl, std::string(setup.spec->name)) {}
  const PipelinePlan::AnalyzerSetup setup;
  const std::unique_ptr<Analyzer> analyzer;
  SeriesTable table;
  FrameWriter writer;
  AnalyzerStats stats;
};

}  // namespace gpulens

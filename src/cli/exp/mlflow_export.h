// A run as MLflow's file store has it, so that `mlflow ui --backend-store-uri DIR` shows it.
//
//   DIR/EXPERIMENT/meta.yaml                       one for each name of a run
//   DIR/EXPERIMENT/RUN/meta.yaml  params/KEY  metrics/KEY ("milliseconds value step")  tags/KEY  artifacts/…
#pragma once

#include <string>
#include <vector>

#include <gpulens/status.h>

#include "cli/exp/exp_text.h"

namespace gpulens {

struct MlflowRun {
  RunPage page;
  std::vector<std::vector<experiments::PointRow>> points;  // of each metric of the page
};

// The number that stands for an experiment of this name.
std::string MlflowExperimentId(std::string_view name);
// A key as MLflow takes it: letters, digits, _ - . : / and blanks; no part of it leads elsewhere.
std::string MlflowKey(std::string_view key);
// Writes below `folder`, which is made where it is missing. Copied artifacts come along. A run that is there
// is written over. kInvalidArgument: the run cannot be told apart from a path.
Status WriteMlflow(const MlflowRun& run, const std::string& folder);

}  // namespace gpulens

// `gpulens run --probes=…`: the environment in which a program loads gpulens's libraries. It needs no rights;
// a program that does not use NCCL, CUDA or PyTorch is not touched.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace gpulens {

// What --probes names.
struct JobProbes {
  bool nccl = false, cuda = false, torch = false;
  bool none = false;
  std::string nccl_level;   // count, time, link; empty: the library's own
  bool nccl_chain = false;  // load the plugin of the environment behind ours
  std::string cuda_level;   // count, time, profile; empty: the library's own
  bool cuda_hes = false;

  // Parses "nccl[:LEVEL][:chain],cuda[:LEVEL][:hes],torch" or "none".
  static Result<JobProbes> Parse(const std::string& text);
};

// Where the libraries are.
struct JobProbeFolders {
  std::vector<std::string> libraries, torch;
  // Next to the program of a build, or in lib/gpulens and share/gpulens of an installation.
  static JobProbeFolders Of(const std::string& program);
};

using EnvironmentVariables = std::vector<std::pair<std::string, std::string>>;
// The variables to set. `variable` returns a variable's value, empty when it is not set. Fails when a library
// is missing, or when the program has a profiler of its own that ours would displace.
Result<EnvironmentVariables> JobProbeEnvironment(const JobProbes& probes, const JobProbeFolders& folders,
                                                 const std::function<std::string(const char*)>& variable);

// Copies the libraries that `probes` names, and the hook of PyTorch to `folder`/torch, for programs that do
// not see ours: those of other containers. Returns where they are then.
Result<JobProbeFolders> CopyJobLibraries(const JobProbes& probes, const JobProbeFolders& folders,
                                         const std::string& folder);

}  // namespace gpulens

#include "cli/run_probes.h"

#include <unistd.h>

#include <string_view>

#include "base/files.h"
#include "base/text.h"
#include "job_page/job_page.h"

namespace gpulens {
namespace {

std::vector<std::string> Parts(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Status Unknown(const std::string& what) {
  return {Code::kInvalidArgument, "--probes: " + what +
                                      ": expected nccl[:count|time|link][:chain], "
                                      "cuda[:count|time|profile][:hes], torch, or none"};
}

Result<std::string> FindFile(const std::vector<std::string>& folders, const std::string& name) {
  for (const std::string& folder : folders) {
    const std::string path = folder + "/" + name;
    if (::access(path.c_str(), R_OK) == 0) return path;
  }
  return Status{Code::kUnavailable, "--probes: no " + name + " in " +
                                        (folders.empty() ? "" : folders.back()) +
                                        ": it is part of the package gpulens"};
}

constexpr char kNcclLibrary[] = "libgpulens-nccl-profiler.so", kCudaLibrary[] = "libgpulens-cuda.so",
               kJobLibrary[] = "libgpulens-job.so", kTorchHook[] = "sitecustomize.py";

Status CopyInto(const std::string& folder, const std::string& path) {
  constexpr size_t kMostBytes = size_t{64} << 20;
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMostBytes));
  const std::string copy = folder + path.substr(path.rfind('/'));
  RETURN_IF_ERROR(MakeFoldersAbove(copy));
  return WriteFileAtomically(copy, bytes);
}

}  // namespace

Result<JobProbes> JobProbes::Parse(const std::string& text) {
  JobProbes probes;
  for (const std::string& item : Parts(text, ',')) {
    const std::vector<std::string> words = Parts(item, ':');
    if (words.front() == "nccl") probes.nccl = true;
    else if (words.front() == "cuda") probes.cuda = true;
    else if (words.front() == "torch") probes.torch = true;
    else if (words.front() == "none") probes.none = true;
    else return Unknown("\"" + item + "\"");
    for (size_t i = 1; i < words.size(); ++i) {
      const std::string& word = words[i];
      const bool count_or_time = word == "count" || word == "time";
      if (words.front() == "nccl" && (count_or_time || word == "link")) probes.nccl_level = word;
      else if (words.front() == "nccl" && word == "chain") probes.nccl_chain = true;
      else if (words.front() == "cuda" && (count_or_time || word == "profile")) probes.cuda_level = word;
      else if (words.front() == "cuda" && word == "hes") probes.cuda_hes = true;
      else return Unknown("\"" + item + "\"");
    }
  }
  if (probes.none && (probes.nccl || probes.cuda || probes.torch)) return Unknown("none with others");
  return probes;
}

JobProbeFolders JobProbeFolders::Of(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/'));
  return {.libraries = {folder, folder + "/../lib/gpulens"},
          .torch = {folder + "/../../python/gpulens/torch_hook", folder + "/../share/gpulens/torch"}};
}

Result<EnvironmentVariables> JobProbeEnvironment(const JobProbes& probes, const JobProbeFolders& folders,
                                                 const std::function<std::string(const char*)>& variable) {
  EnvironmentVariables set;
  if (probes.none) return EnvironmentVariables{{job_page::kSwitchVariable, "off"}};
  if (probes.nccl) {
    ASSIGN_OR_RETURN(std::string library, FindFile(folders.libraries, kNcclLibrary));
    const std::string other = variable("NCCL_PROFILER_PLUGIN");
    if (!other.empty() && other != "none") {
      if (!probes.nccl_chain)
        return Status{Code::kInvalidArgument, "--probes: NCCL_PROFILER_PLUGIN is " + other +
                                                  ": with nccl:chain it is loaded behind gpulens's"};
      const bool path = other.find('/') != std::string::npos || other.ends_with(".so");
      set.emplace_back("GPULENS_NCCL_CHAIN", path ? other : "libnccl-profiler-" + other + ".so");
    }
    set.emplace_back("NCCL_PROFILER_PLUGIN", std::move(library));
    if (!probes.nccl_level.empty()) set.emplace_back("GPULENS_NCCL_LEVEL", probes.nccl_level);
  }
  if (probes.cuda) {
    ASSIGN_OR_RETURN(std::string library, FindFile(folders.libraries, kCudaLibrary));
    if (const std::string other = variable("CUDA_INJECTION64_PATH"); !other.empty())
      return Status{Code::kInvalidArgument,
                    "--probes: CUDA_INJECTION64_PATH is " + other + ": CUDA loads one such library alone"};
    set.emplace_back("CUDA_INJECTION64_PATH", std::move(library));
    if (!probes.cuda_level.empty() || probes.cuda_hes)
      set.emplace_back("GPULENS_CUDA", (probes.cuda_level.empty() ? "time" : probes.cuda_level) +
                                           (probes.cuda_hes ? ",hes" : ""));
  }
  if (probes.torch) {
    ASSIGN_OR_RETURN(std::string library, FindFile(folders.libraries, kJobLibrary));
    ASSIGN_OR_RETURN(std::string hook, FindFile(folders.torch, kTorchHook));
    const std::string before = variable("PYTHONPATH");
    hook.resize(hook.rfind('/'));
    set.emplace_back("PYTHONPATH", before.empty() ? hook : hook + ":" + before);
    set.emplace_back("GPULENS_JOB_LIBRARY", std::move(library));
  }
  if (variable(job_page::kSocketVariable).empty())
    set.emplace_back(job_page::kSocketVariable, job_page::kDefaultSocket);
  return set;
}

Result<JobProbeFolders> CopyJobLibraries(const JobProbes& probes, const JobProbeFolders& folders,
                                         const std::string& folder) {
  const std::pair<bool, const char*> libraries[] = {
      {probes.nccl, kNcclLibrary}, {probes.cuda, kCudaLibrary}, {probes.torch, kJobLibrary}};
  for (const auto& [wanted, name] : libraries) {
    if (!wanted) continue;
    ASSIGN_OR_RETURN(const std::string library, FindFile(folders.libraries, name));
    RETURN_IF_ERROR(CopyInto(folder, library));
  }
  const JobProbeFolders copies{.libraries = {folder}, .torch = {folder + "/torch"}};
  if (!probes.torch) return copies;
  ASSIGN_OR_RETURN(std::string hook, FindFile(folders.torch, kTorchHook));
  hook.resize(hook.rfind('/'));
  Status copied;
  RETURN_IF_ERROR(ForEachName(hook, [&](std::string_view name) {
    if (name.ends_with(".py")) copied = CopyInto(copies.torch.front(), hook + "/" + std::string(name));
    return copied.ok();
  }));
  RETURN_IF_ERROR(copied);
  return copies;
}

}  // namespace gpulens

// Confines a proxy to the files that its configuration names, to its network, and to no program.
//
// SECURITY.md has the table; tests/e2e/test_proxy_sandbox.py tries it from inside.
#pragma once

#include <string>
#include <vector>

#include "base/sandbox/sandbox.h"

namespace gpulens::proxy {

// What a proxy opens once it is confined, as configured.
struct ProxyFiles {
  // Files that are read again. Each may be replaced by another of its name, so the folder that has it can be
  // read, too.
  std::vector<std::string> read;
  std::vector<std::string> folders;  // in which files are made, written and removed
};

// The files of libpq for a store or engine at `url`: those that the URL and the environment name, and those
// in the home folder. Adds nothing for other URLs.
void AddPostgresFiles(const std::string& url, ProxyFiles& files);

class ProxySandbox {
 public:
  // Confines this process. Call it when the listeners are open, since no capability is left, and before there
  // are threads. Makes `files.folders` where they are missing. Besides `files` these can be read: libraries,
  // the machine's CA certificates, and what looks up names.
  static ProxySandbox Enter(SandboxMode mode, const ProxyFiles& files);

  // What is in force, and why the rest is not.
  const std::vector<SandboxLayer>& layers() const noexcept { return layers_; }
  // What this process may not open of the files of another configuration. Empty where files are not limited.
  std::vector<std::string> Outside(const ProxyFiles& files) const;

 private:
  std::vector<SandboxLayer> layers_;
  bool limits_files_ = false;
  FileRights rights_;  // paths without links
};

}  // namespace gpulens::proxy

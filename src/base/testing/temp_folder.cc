#include "base/testing/temp_folder.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/check.h"
#include "base/files.h"

namespace gpulens::testing {

TempFolder::TempFolder() {
  const char* base = ::getenv("TMPDIR");
  path_ = std::string(base ? base : "/tmp") + "/gpulens-test-XXXXXX";
  CHECK(::mkdtemp(path_.data()));
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, const std::string& text) const {
  std::string path = path_ + "/" + name;
  CHECK(WriteFileAtomically(path, text, {.sync = false}).ok());
  return path;
}

std::string TempFolder::WriteProgram(const std::string& name, const std::string& script) const {
  std::string path = Write(name, "#!/bin/sh\n" + script + "\n");
  CHECK(::chmod(path.c_str(), 0755) == 0);
  return path;
}

}  // namespace gpulens::testing

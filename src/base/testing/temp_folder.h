// Temporary folder of a test.
#pragma once

#include <string>

namespace gpulens::testing {

// A new folder below the temporary one; removed with its files at destruction.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const noexcept { return path_; }
  // Writes a file into it and returns its path.
  std::string Write(const std::string& name, const std::string& text) const;
  // Writes an executable shell script; `script` follows its first line.
  std::string WriteProgram(const std::string& name, const std::string& script) const;

 private:
  std::string path_;
};

}  // namespace gpulens::testing

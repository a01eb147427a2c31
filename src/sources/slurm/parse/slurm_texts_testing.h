// For tests: texts of Slurm's programs, our own in testdata/bad and captures of real ones where they are
// here.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/files.h"

namespace gpulens::slurm {

inline const std::string kBad = GPULENS_SOURCE_DIR "/src/sources/slurm/parse/testdata/bad/";
inline const std::string kCaptures = GPULENS_SOURCE_DIR "/../shared/fixtures/slurm/";

#define NEED_CAPTURE(text, name)                                           \
  auto text##_file = ReadFile(kCaptures + (name), size_t{4} << 20);        \
  if (!text##_file) GTEST_SKIP() << "captures not here: slurm/" << (name); \
  const std::string& text = *text##_file

inline std::string Bad(const std::string& name) {
  auto text = ReadFile(kBad + name);
  EXPECT_TRUE(text.ok()) << name;
  return text ? *text : std::string();
}

}  // namespace gpulens::slurm

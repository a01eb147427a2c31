#include "wire/pprof/kernel_profile.h"

#include <gtest/gtest.h>

#include <map>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <vector>

namespace gpulens {
namespace {

using protozero::pbf_reader;

KernelProfile TwoKernels() {
  KernelProfile profile;
  profile.begin_unix_ns = 1'790'000'000'000'000'000;
  profile.duration_ns = 2'000'000'000;
  profile.kernels = {{"add(float*)", "_Z3addPf", "0000:1a:00.0", 10, 5000},
                     {"mul(float*)", "_Z3mulPf", "0000:1a:00.0", 3, 700},
                     {"add(float*)", "_Z3addPf", "0000:1b:00.0", 1, 90}};
  return profile;
}

// What a reader of pprof shows: "device;kernel" → values.
std::map<std::string, std::vector<int64_t>> Stacks(const std::string& bytes) {
  std::vector<std::string> strings;
  std::map<uint64_t, int64_t> function_of_location_name;
  std::map<uint64_t, uint64_t> functions_of_locations;
  struct Sample {
    std::vector<uint64_t> stack;
    std::vector<int64_t> values;
  };
  std::vector<Sample> samples;
  pbf_reader message(bytes);
  while (message.next()) {
    if (message.tag() == 6) {
      strings.push_back(message.get_string());
    } else if (message.tag() == 2) {
      pbf_reader sample = message.get_message();
      Sample& out = samples.emplace_back();
      while (sample.next()) {
        if (sample.tag() == 1) {
          for (const uint64_t id : sample.get_packed_uint64()) out.stack.push_back(id);
        } else if (sample.tag() == 2) {
          for (const int64_t value : sample.get_packed_int64()) out.values.push_back(value);
        } else {
          sample.skip();
        }
      }
    } else if (message.tag() == 4) {
      pbf_reader location = message.get_message();
      uint64_t id = 0;
      while (location.next()) {
        if (location.tag() == 1) id = location.get_uint64();
        else {
          pbf_reader line = location.get_message();
          EXPECT_TRUE(line.next(1));
          functions_of_locations[id] = line.get_uint64();
        }
      }
    } else if (message.tag() == 5) {
      pbf_reader function = message.get_message();
      uint64_t id = 0;
      while (function.next()) {
        if (function.tag() == 1) id = function.get_uint64();
        else if (function.tag() == 2) function_of_location_name[id] = function.get_int64();
        else function.skip();
      }
    } else {
      message.skip();
    }
  }
  std::map<std::string, std::vector<int64_t>> out;
  for (const Sample& sample : samples) {
    std::string text;
    for (auto at = sample.stack.rbegin(); at != sample.stack.rend(); ++at) {
      const auto name = function_of_location_name.at(functions_of_locations.at(*at));
      text += (text.empty() ? "" : ";") + strings.at(static_cast<size_t>(name));
    }
    out[text] = sample.values;
  }
  return out;
}

TEST(KernelProfileTest, PprofHasTheKernelsOfEachDevice) {
  const std::map<std::string, std::vector<int64_t>> expected{{"0000:1a:00.0;add(float*)", {10, 5000}},
                                                             {"0000:1a:00.0;mul(float*)", {3, 700}},
                                                             {"0000:1b:00.0;add(float*)", {1, 90}}};
  EXPECT_EQ(Stacks(EncodePprof(TwoKernels())), expected);
}

TEST(KernelProfileTest, AnEmptyProfileIsOne) {
  EXPECT_TRUE(Stacks(EncodePprof({})).empty());
  const std::string otlp =
      EncodeOtlpProfiles({}, {.scope_name = "gpulens", .scope_version = "1", .profile_id = ""});
  pbf_reader message(otlp);
  EXPECT_TRUE(message.next(1));
}

}  // namespace
}  // namespace gpulens

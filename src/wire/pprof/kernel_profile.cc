#include "wire/pprof/kernel_profile.h"

#include <map>
#include <protozero/pbf_writer.hpp>
#include <utility>
#include <variant>

namespace gpulens {
namespace {

using protozero::pbf_writer;

// Of pprof's profile.proto.
enum PprofField : uint32_t {
  kPprofSampleType = 1,
  kPprofSample = 2,
  kPprofLocation = 4,
  kPprofFunction = 5,
  kPprofStrings = 6,
  kPprofTime = 9,
  kPprofDuration = 10,
  kPprofDefaultType = 14,
};
// Of opentelemetry-proto's profiles/v1development.
enum OtlpProfileField : uint32_t {
  kRequestResource = 1,
  kRequestDictionary = 2,
  kDictionaryMapping = 1,
  kDictionaryLocation = 2,
  kDictionaryFunction = 3,
  kDictionaryLink = 4,
  kDictionaryString = 5,
  kDictionaryAttribute = 6,
  kDictionaryStack = 7,
};

// Strings by index, of which 0 is the empty one; each once.
class StringTable {
 public:
  StringTable() { Add(""); }
  int64_t Add(std::string_view text) {
    const auto [at, added] = index_.try_emplace(std::string(text), static_cast<int64_t>(list_.size()));
    if (added) list_.push_back(at->first);
    return at->second;
  }
  const std::vector<std::string_view>& list() const noexcept { return list_; }

 private:
  std::map<std::string, int64_t> index_;  // its nodes stay
  std::vector<std::string_view> list_;
};

// Functions, each of which has one location: first the devices, then the kernels.
struct Frames {
  struct Function {
    int64_t name, symbol;
  };
  std::vector<Function> functions;         // of index i + 1
  std::vector<uint64_t> kernels, devices;  // of each kernel of the profile: index + 1 of both

  Frames(const KernelProfile& profile, StringTable& strings) {
    std::map<std::pair<std::string_view, std::string_view>, uint64_t> known;
    const auto add = [&](std::string_view name, std::string_view symbol) {
      const auto [at, added] = known.try_emplace({name, symbol}, functions.size() + 1);
      if (added) functions.push_back({strings.Add(name), strings.Add(symbol)});
      return at->second;
    };
    for (const KernelProfile::Kernel& kernel : profile.kernels) {
      devices.push_back(add(kernel.device, ""));
      kernels.push_back(add(kernel.name, kernel.symbol));
    }
  }
};

void AppendAnyValue(pbf_writer& parent, uint32_t field, const AttributeSet::Value& value) {
  pbf_writer any(parent, field);
  if (const auto* text = std::get_if<std::string_view>(&value)) any.add_string(1, text->data(), text->size());
  else if (const auto* yes = std::get_if<bool>(&value)) any.add_bool(2, *yes);
  else if (const auto* whole = std::get_if<int64_t>(&value)) any.add_int64(3, *whole);
  else any.add_double(4, std::get<double>(value));
}

void AppendProfile(pbf_writer& scope, const KernelProfile& profile, bool time, int64_t type, int64_t unit,
                   const std::map<std::string_view, uint32_t>& attributes, std::string_view id) {
  pbf_writer out(scope, 2);
  {
    pbf_writer sample_type(out, 1);
    sample_type.add_int32(1, static_cast<int32_t>(type));
    sample_type.add_int32(2, static_cast<int32_t>(unit));
  }
  for (size_t i = 0; i < profile.kernels.size(); ++i) {
    const KernelProfile::Kernel& kernel = profile.kernels[i];
    const uint32_t attribute = attributes.at(kernel.device);
    const auto value = static_cast<int64_t>(time ? kernel.total_ns : kernel.count);
    pbf_writer sample(out, 2);
    sample.add_int32(1, static_cast<int32_t>(i + 1));  // each kernel has a stack of its own
    sample.add_packed_int32(2, &attribute, &attribute + 1);
    sample.add_packed_int64(4, &value, &value + 1);
  }
  out.add_fixed64(3, static_cast<uint64_t>(profile.begin_unix_ns));
  out.add_uint64(4, static_cast<uint64_t>(profile.duration_ns));
  std::string own(id);
  if (time && !own.empty()) own.back() = static_cast<char>(own.back() ^ 1);
  out.add_bytes(7, own);
}

}  // namespace

std::string EncodePprof(const KernelProfile& profile) {
  std::string bytes;
  pbf_writer out(bytes);
  StringTable strings;
  const Frames frames(profile, strings);
  const int64_t kernels = strings.Add("kernels"), count = strings.Add("count");
  const int64_t time = strings.Add("time"), nanoseconds = strings.Add("nanoseconds"),
                device = strings.Add("device");
  for (const auto& [type, unit] : {std::pair(kernels, count), std::pair(time, nanoseconds)}) {
    pbf_writer value_type(out, kPprofSampleType);
    value_type.add_int64(1, type);
    value_type.add_int64(2, unit);
  }
  for (size_t i = 0; i < profile.kernels.size(); ++i) {
    const KernelProfile::Kernel& kernel = profile.kernels[i];
    const uint64_t stack[] = {frames.kernels[i], frames.devices[i]};  // the leaf first
    const int64_t values[] = {static_cast<int64_t>(kernel.count), static_cast<int64_t>(kernel.total_ns)};
    pbf_writer sample(out, kPprofSample);
    sample.add_packed_uint64(1, stack, stack + 2);
    sample.add_packed_int64(2, values, values + 2);
    pbf_writer label(sample, 3);
    label.add_int64(1, device);
    label.add_int64(2, strings.Add(kernel.device));
  }
  for (size_t i = 0; i < frames.functions.size(); ++i) {
    {
      pbf_writer location(out, kPprofLocation);
      location.add_uint64(1, i + 1);
      pbf_writer line(location, 4);
      line.add_uint64(1, i + 1);
    }
    pbf_writer function(out, kPprofFunction);
    function.add_uint64(1, i + 1);
    function.add_int64(2, frames.functions[i].name);
    function.add_int64(3, frames.functions[i].symbol);
  }
  for (const std::string_view text : strings.list()) out.add_string(kPprofStrings, text.data(), text.size());
  out.add_int64(kPprofTime, profile.begin_unix_ns);
  out.add_int64(kPprofDuration, profile.duration_ns);
  out.add_int64(kPprofDefaultType, time);
  return bytes;
}

std::string EncodeOtlpProfiles(const KernelProfile& profile, const ProfilesAbout& about) {
  std::string bytes;
  pbf_writer out(bytes);
  StringTable strings;
  const Frames frames(profile, strings);
  const int64_t kernels = strings.Add("kernels"), count = strings.Add("count");
  const int64_t time = strings.Add("time"), nanoseconds = strings.Add("nanoseconds");
  const int64_t device = strings.Add("cuda.device");
  std::map<std::string_view, uint32_t> attributes;  // of each device: index in the table of attributes
  for (const KernelProfile::Kernel& kernel : profile.kernels)
    attributes.try_emplace(kernel.device, static_cast<uint32_t>(attributes.size() + 1));
  {
    pbf_writer resource_profiles(out, kRequestResource);
    {
      pbf_writer resource(resource_profiles, 1);
      for (const auto& [key, value] : about.resource) {
        pbf_writer attribute(resource, 1);
        attribute.add_string(1, key.data(), key.size());
        AppendAnyValue(attribute, 2, value);
      }
    }
    pbf_writer scope_profiles(resource_profiles, 2);
    {
      pbf_writer scope(scope_profiles, 1);
      scope.add_string(1, about.scope_name.data(), about.scope_name.size());
      scope.add_string(2, about.scope_version.data(), about.scope_version.size());
    }
    AppendProfile(scope_profiles, profile, false, kernels, count, attributes, about.profile_id);
    AppendProfile(scope_profiles, profile, true, time, nanoseconds, attributes, about.profile_id);
  }
  pbf_writer dictionary(out, kRequestDictionary);
  // The first of each table is its empty value.
  dictionary.add_message(kDictionaryMapping, std::string());
  dictionary.add_message(kDictionaryLocation, std::string());
  for (size_t i = 0; i < frames.functions.size(); ++i) {
    pbf_writer location(dictionary, kDictionaryLocation);
    pbf_writer line(location, 3);
    line.add_int32(1, static_cast<int32_t>(i + 1));
  }
  dictionary.add_message(kDictionaryFunction, std::string());
  for (const Frames::Function& of : frames.functions) {
    pbf_writer function(dictionary, kDictionaryFunction);
    function.add_int32(1, static_cast<int32_t>(of.name));
    function.add_int32(2, static_cast<int32_t>(of.symbol));
  }
  dictionary.add_message(kDictionaryLink, std::string());
  for (const std::string_view text : strings.list())
    dictionary.add_string(kDictionaryString, text.data(), text.size());
  dictionary.add_message(kDictionaryAttribute, std::string());
  std::vector<std::string_view> ordered(attributes.size());
  for (const auto& [name, at] : attributes) ordered[at - 1] = name;
  for (const std::string_view name : ordered) {
    pbf_writer attribute(dictionary, kDictionaryAttribute);
    attribute.add_int32(1, static_cast<int32_t>(device));
    AppendAnyValue(attribute, 2, AttributeSet::Value(name));
  }
  dictionary.add_message(kDictionaryStack, std::string());
  for (size_t i = 0; i < profile.kernels.size(); ++i) {
    const auto leaf = static_cast<int32_t>(frames.kernels[i]), root = static_cast<int32_t>(frames.devices[i]);
    const int32_t stack[] = {leaf, root};
    pbf_writer entry(dictionary, kDictionaryStack);
    entry.add_packed_int32(1, stack, stack + 2);
  }
  return bytes;
}

}  // namespace gpulens

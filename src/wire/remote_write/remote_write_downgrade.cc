#include "wire/remote_write/remote_write_downgrade.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <vector>

#include "wire/remote_write/remote_write_fields.h"

namespace gpulens {
namespace {

using namespace remote_write;

// A field as it stands in a message; one of another type is not that field, and must not be read as it.
constexpr uint32_t Bytes(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::length_delimited);
}
constexpr uint32_t Varint(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::varint);
}
constexpr uint32_t Fixed64(uint32_t tag) {
  return protozero::tag_and_type(tag, protozero::pbf_wire_type::fixed64);
}

class Downgrade {
 public:
  explicit Downgrade(std::string& out) : out_(out) {}

  bool Request(std::string_view bytes) {
    // The symbols may stand behind what refers to them.
    protozero::pbf_reader symbols(bytes.data(), bytes.size());
    while (symbols.next(kSymbols, protozero::pbf_wire_type::length_delimited))
      symbols_.push_back(symbols.get_view());
    protozero::pbf_reader all(bytes.data(), bytes.size());
    while (all.next()) {
      if (all.tag_and_type() == Bytes(kTimeSeries2)) {
        if (!Series(all.get_message())) return false;
      } else if (all.tag_and_type() == Bytes(kSymbols)) {
        all.skip();
      } else {
        return false;
      }
    }
    return true;
  }

 private:
  bool Series(protozero::pbf_reader series) {
    body_.clear();
    while (series.next()) {
      switch (series.tag_and_type()) {
        case Bytes(kLabelRefs):
          if (!Labels(series.get_packed_uint32(), body_, kLabels)) return false;
          break;
        case Bytes(kSamples): Sample(series.get_message()); break;
        case Bytes(kHistograms): return false;
        case Bytes(kExemplars2):
          if (!Exemplar(series.get_message())) return false;
          break;
        default: series.skip();
      }
    }
    protozero::pbf_writer(out_).add_message(kTimeSeries1, body_);
    return true;
  }

  // The labels of a series, or of an exemplar: their fields have the same form.
  template <class Refs>
  bool Labels(const Refs& refs, std::string& message, uint32_t field) {
    for (auto at = refs.begin(); at != refs.end(); ++at) {
      const uint32_t name = *at;
      if (++at == refs.end() || name >= symbols_.size() || *at >= symbols_.size()) return false;
      protozero::pbf_writer out(message), label(out, field);
      label.add_string(kLabelName, symbols_[name]);
      label.add_string(kLabelValue, symbols_[*at]);
    }
    return true;
  }

  bool Exemplar(protozero::pbf_reader exemplar) {
    std::string labels;
    double value = 0;
    int64_t ms = 0;
    while (exemplar.next()) {
      switch (exemplar.tag_and_type()) {
        case Bytes(kExemplarLabels):
          if (!Labels(exemplar.get_packed_uint32(), labels, kExemplarLabels)) return false;
          break;
        case Fixed64(kExemplarValue): value = exemplar.get_double(); break;
        case Varint(kExemplarTimestamp): ms = exemplar.get_int64(); break;
        default: exemplar.skip();
      }
    }
    protozero::pbf_writer one(labels);
    one.add_double(kExemplarValue, value);
    one.add_int64(kExemplarTimestamp, ms);
    protozero::pbf_writer(body_).add_message(kExemplars1, labels);
    return true;
  }

  void Sample(protozero::pbf_reader sample) {
    double value = 0;
    int64_t ms = 0;
    while (sample.next()) {
      switch (sample.tag_and_type()) {
        case Fixed64(kValue): value = sample.get_double(); break;
        case Varint(kTimestamp): ms = sample.get_int64(); break;
        default: sample.skip();
      }
    }
    protozero::pbf_writer out(body_), told(out, kSamples);
    told.add_double(kValue, value);
    told.add_int64(kTimestamp, ms);
  }

  std::string& out_;
  std::string body_;
  std::vector<protozero::data_view> symbols_;
};

}  // namespace

bool ToRemoteWrite1(std::string_view request, std::string& out) {
  out.clear();
  try {
    if (Downgrade(out).Request(request)) return true;
  } catch (const protozero::exception&) {
    return out.clear(), false;
  }
  return out.clear(), false;
}

}  // namespace gpulens

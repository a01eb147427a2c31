#include "sources/kubelet/parse/pod_resources.h"

#include <protozero/pbf_reader.hpp>

#include "base/text.h"

namespace gpulens::kubelet {
namespace {

using protozero::pbf_reader;

constexpr size_t kMostText = 1024, kMostThings = 65'536;

// What makes the whole of it useless. Never leaves this file.
struct Refused {
  Code code;
  const char* why;
};

class ListReader {
 public:
  std::vector<HolderPod> Read(pbf_reader message) {
    std::vector<HolderPod> pods;
    while (message.next(1, protozero::pbf_wire_type::length_delimited)) {
      Count();
      HolderPod pod = ReadPod(message.get_message());
      if (!pod.containers.empty()) pods.push_back(std::move(pod));
    }
    return pods;
  }

 private:
  void Count() {
    if (++things_ > kMostThings) throw Refused{Code::kExhausted, "more than a node can have"};
  }

  std::string Text(pbf_reader& message) {
    std::string text = message.get_string();
    if (text.size() > kMostText) throw Refused{Code::kExhausted, "a name of more than 1024 bytes"};
    if (!IsUtf8(text)) throw Refused{Code::kDataLoss, "a name that is not UTF-8"};
    return text;
  }

  // `field(number)` takes what it knows; everything that is no text or message is passed over.
  template <class Field>
  void Fields(pbf_reader message, Field field) {
    while (message.next()) {
      bool known = message.wire_type() == protozero::pbf_wire_type::length_delimited && field(message);
      if (!known) message.skip();
    }
  }

  HolderPod ReadPod(pbf_reader message) {
    HolderPod pod;
    Fields(message, [&](pbf_reader& at) {
      switch (at.tag()) {
        case 1: pod.name = Text(at); return true;
        case 2: pod.name_space = Text(at); return true;
        case 3: break;
        default: return false;
      }
      Count();
      HolderContainer container = ReadContainer(at.get_message());
      if (!container.devices.empty() || !container.claimed.empty())
        pod.containers.push_back(std::move(container));
      return true;
    });
    return pod;
  }

  HolderContainer ReadContainer(pbf_reader message) {
    HolderContainer container;
    Fields(message, [&](pbf_reader& at) {
      switch (at.tag()) {
        case 1: container.name = Text(at); return true;
        case 2: ReadDevices(at.get_message(), container); return true;
        case 5: ReadClaim(at.get_message(), container); return true;
        default: return false;
      }
    });
    return container;
  }

  void ReadDevices(pbf_reader message, HolderContainer& container) {
    HeldDevices devices;
    Fields(message, [&](pbf_reader& at) {
      if (at.tag() == 1) return devices.resource = Text(at), true;
      if (at.tag() != 2) return false;
      Count();
      devices.ids.push_back(Text(at));
      return true;
    });
    if (!devices.ids.empty()) container.devices.push_back(std::move(devices));
  }

  void ReadClaim(pbf_reader message, HolderContainer& container) {
    Fields(message, [&](pbf_reader& claim) {
      if (claim.tag() != 4) return false;
      Count();
      ClaimedDevice device;
      Fields(claim.get_message(), [&](pbf_reader& at) {
        switch (at.tag()) {
          case 2: device.driver = Text(at); return true;
          case 3: device.pool = Text(at); return true;
          case 4: device.device = Text(at); return true;
          default: return false;
        }
      });
      if (!device.driver.empty() && !device.device.empty()) container.claimed.push_back(std::move(device));
      return true;
    });
  }

  size_t things_ = 0;
};

}  // namespace

Result<std::vector<HolderPod>> ParsePodResources(std::string_view message) {
  if (message.size() > kMostPodResourcesBytes) return Status{Code::kExhausted, "PodResources: too large"};
  try {
    return ListReader().Read(pbf_reader(message.data(), message.size()));
  } catch (const Refused& refused) {
    return Status{refused.code, std::string("PodResources: ") + refused.why};
  } catch (const protozero::exception& broken) {
    return Status{Code::kDataLoss, std::string("PodResources: ") + broken.what()};
  }
}

}  // namespace gpulens::kubelet

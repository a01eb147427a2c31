#include "scrape/gpu/page_entities.h"

#include <algorithm>

#include "base/parse.h"
#include "base/pci_address.h"

namespace gpulens::gpu_page {
namespace {

constexpr std::string_view kPod[] = {"pod", "pod_name", "kube_pod"};
constexpr std::string_view kNamespace[] = {"namespace", "pod_namespace", "kube_namespace"};
constexpr std::string_view kContainer[] = {"container", "container_name", "kube_container"};
constexpr std::string_view kPodUid[] = {"pod_uid", "pod_uuid"};

char Lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameName(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return Lower(x) == Lower(y); });
}

// The kernel's form of an address, as the drivers' readings have it: "0000:1b:00.0". DCGM writes
// "00000000:1B:00.0". What is no address stays as it is.
std::string KernelAddress(std::string_view text) {
  if (auto parsed = ParsePciAddress(text)) return parsed->ToString();
  std::string address(text);
  std::transform(address.begin(), address.end(), address.begin(), Lower);
  return address;
}

std::string KeyOf(std::string_view type, std::span<const AttributeSet::Attribute> attributes,
                  const Entity* parent) {
  std::string key(type);
  for (const auto& attribute : attributes) {
    key += '\x1f';
    key += attribute.key;
    key += '=';
    AppendValue(key, attribute.value);
  }
  if (!parent) return key;
  key += '\x1e';
  for (auto [name, value] : parent->attributes) {
    key += name;
    key += '=';
    AppendValue(key, value);
    key += '\x1f';
  }
  return key;
}

}  // namespace

std::string_view LabelOf(const std::vector<PageLabel>& labels, std::string_view name) noexcept {
  for (const PageLabel& label : labels) {
    if (SameName(label.name, name)) return label.value;
  }
  return {};
}

std::string_view Entities::FirstOf(const std::vector<PageLabel>& labels,
                                   std::span<const std::string_view> names) const noexcept {
  for (std::string_view name : names) {
    std::string_view value = LabelOf(labels, name);
    if (!value.empty()) return value;
  }
  return {};
}

std::string_view Entities::PartOf(const std::vector<PageLabel>& labels) const noexcept {
  for (auto [name, value] : labels_->whole) {
    if (SameName(LabelOf(labels, name), value)) return {};
  }
  return FirstOf(labels, labels_->part);
}

EntityRef Entities::Keep(std::string_view type, std::vector<AttributeSet::Attribute> attributes,
                         EntityRef parent) {
  for (const auto& [key, value] : more_) attributes.push_back({key, std::string_view(value)});
  std::string key = KeyOf(type, attributes, parent.get());
  auto at = known_.find(key);
  if (at == known_.end()) {
    AttributeSet set{std::span<const AttributeSet::Attribute>(attributes)};
    at = known_.emplace(std::move(key), Known{MakeRef<Entity>(std::string(type), set, std::move(parent)), 0})
             .first;
  }
  at->second.used = round_;
  return at->second.entity;
}

void Entities::AddWorkload(const std::vector<PageLabel>& labels,
                           std::vector<AttributeSet::Attribute>& attributes) const {
  auto add = [&](std::string_view key, std::span<const std::string_view> names) {
    std::string_view value = FirstOf(labels, names);
    if (!value.empty()) attributes.push_back({key, value});
  };
  add("k8s.pod.name", kPod);
  add("k8s.namespace.name", kNamespace);
  add("k8s.container.name", kContainer);
  add("k8s.pod.uid", kPodUid);
}

Subject Entities::Of(const std::vector<PageLabel>& labels) {
  Subject subject;
  for (auto [name, value] : labels_->only) {
    std::string_view have = LabelOf(labels, name);
    if (!have.empty() && have != value) subject.taken = false;
  }
  std::string_view index = FirstOf(labels, labels_->index), uuid = FirstOf(labels, labels_->uuid);
  std::string_view bus = FirstOf(labels, labels_->bus), model = FirstOf(labels, labels_->model);
  std::string_view part = PartOf(labels);
  if (!part.empty() && labels_->parts == Parts::kOwn) subject.taken = false;
  std::vector<AttributeSet::Attribute> attributes;
  auto number = ParseInt<int64_t>(index);
  if (number && *number >= 0) attributes.push_back({"gpu.index", *number});
  if (!uuid.empty()) attributes.push_back({"gpu.uuid", uuid});
  // Elsewhere the address is a fact of gpu.info; here it is all there is to tell GPUs apart by.
  const std::string address = KernelAddress(bus);
  if (attributes.empty() && !bus.empty()) attributes.push_back({"gpu.pci.bus_id", std::string_view(address)});
  if (attributes.empty() || !subject.taken) return subject;
  subject.gpu = !uuid.empty() ? uuid : number ? index : bus;
  if (!model.empty()) attributes.push_back({"gpu.model", model});
  if (part.empty()) {
    AddWorkload(labels, attributes);
    subject.whole = Keep("gpu", std::move(attributes), {});
    return subject;
  }
  bool mig = labels_->part_key == "gpu.mig.instance_id";
  subject.whole = Keep("gpu", std::move(attributes), {});
  subject.first_part = labels_->parts != Parts::kFirstOnly || part == labels_->first_part;
  std::vector<AttributeSet::Attribute> own;
  subject.part_number = ParseInt<uint16_t>(part).value_or(0);
  if (auto id = ParseInt<int64_t>(part)) own.push_back({labels_->part_key, *id});
  else own.push_back({labels_->part_key, part});
  if (mig) own.push_back({"gpu.mig.enabled", true});
  AddWorkload(labels, own);
  subject.part = Keep(mig ? "mig" : "partition", std::move(own), subject.whole);
  return subject;
}

EntityRef Entities::SwitchOf(const std::vector<PageLabel>& labels) {
  std::string_view id = LabelOf(labels, "nvswitch");
  if (id.empty()) return {};
  return Keep("nvswitch", {{"nvswitch.id", id}}, {});
}

AttributeSet Entities::Pick(const std::vector<PageLabel>& labels, std::span<const LabelPair> pairs,
                            std::span<const AttributeSet::Attribute> first) const {
  std::vector<AttributeSet::Attribute> attributes(first.begin(), first.end());
  std::string address;
  for (auto [name, key] : pairs) {
    std::string_view value = LabelOf(labels, name);
    bool known =
        std::any_of(attributes.begin(), attributes.end(), [&](const auto& a) { return a.key == key; });
    if (value.empty() || known) continue;
    if (key != "gpu.pci.bus_id") attributes.push_back({key, value});
    else attributes.push_back({key, std::string_view(address = KernelAddress(value))});
  }
  return AttributeSet(std::span<const AttributeSet::Attribute>(attributes));
}

void Entities::Forget() {
  std::erase_if(known_, [this](const auto& item) { return item.second.used != round_; });
  ++round_;
}

}  // namespace gpulens::gpu_page

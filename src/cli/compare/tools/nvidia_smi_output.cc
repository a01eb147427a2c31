#include <algorithm>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "cli/compare/tools/tool_output.h"
#include "cli/compare/tools/xml_reader.h"

namespace gpulens::compare {
namespace {

// The instance ids of a MIG device or of a process in one; empty when it is in none.
std::string InstanceOf(const XmlElement& element) {
  std::string_view gpu = element.ChildText("gpu_instance_id"),
                   compute = element.ChildText("compute_instance_id");
  if (!ParseInt<int>(gpu)) return {};
  return "/" + std::string(gpu) + "/" + (ParseInt<int>(compute) ? std::string(compute) : "0");
}

// Collects the texts of all elements that have no children.
class LeafWalk {
 public:
  explicit LeafWalk(std::vector<ToolField>& out) : out_(out) {}

  Status Walk(const XmlElement& element, const std::string& subject, const std::string& path) {
    if (element.children.empty()) {
      if (out_.size() >= kMostFields) return {Code::kExhausted, "nvidia-smi: too many fields"};
      out_.push_back({subject, path, element.text});
      return Ok();
    }
    for (const XmlElement& child : element.children) {
      std::string below = path.empty() ? child.name : path + "/" + child.name;
      if (Status status = Walk(child, SubjectOf(child, subject), below); !status) return status;
    }
    return AddDerived(element, subject, path);
  }

 private:
  std::string SubjectOf(const XmlElement& element, const std::string& subject) const {
    if (element.name == "gpu") return "gpu:" + std::string(element.ChildText("uuid"));
    std::string key = subject.substr(std::min(subject.size(), subject.find(':') + 1));
    if (element.name == "mig_device") return "mig:" + key + InstanceOf(element);
    if (element.name == "process_info") {
      return "process:" + key + "/" + std::string(element.ChildText("pid")) + InstanceOf(element);
    }
    return subject;
  }

  // What newer drivers split in two, and gpulens tells as one number.
  Status AddDerived(const XmlElement& element, const std::string& subject, const std::string& path) {
    std::optional<uint64_t> parity = ParseInt<uint64_t>(element.ChildText("sram_uncorrectable_parity"));
    std::optional<uint64_t> secded = ParseInt<uint64_t>(element.ChildText("sram_uncorrectable_secded"));
    if (!parity || !secded || *parity > UINT32_MAX || *secded > UINT32_MAX) return Ok();
    out_.push_back({subject, path + "/sram_uncorrectable", std::to_string(*parity + *secded)});
    return Ok();
  }

  std::vector<ToolField>& out_;
};

// Paths begin below <gpu>.
std::string WithoutGpu(const std::string& path) { return path.starts_with("gpu/") ? path.substr(4) : path; }

}  // namespace

Result<std::vector<ToolField>> ReadNvidiaSmi(std::string_view xml) {
  ASSIGN_OR_RETURN(XmlElement root, ParseXml(xml));
  if (root.name != "nvidia_smi_log") {
    return Status{Code::kDataLoss,
                  "nvidia-smi: the root is not <nvidia_smi_log>; expected the output of nvidia-smi -q -x"};
  }
  std::vector<ToolField> fields;
  if (Status status = LeafWalk(fields).Walk(root, "machine", {}); !status) return status;
  bool reserved = false;
  for (ToolField& field : fields) {
    field.path = WithoutGpu(field.path);
    reserved = reserved || field.path == "fb_memory_usage/reserved";
  }
  // Drivers before 510 have no field for reserved memory and count it as used.
  for (ToolField& field : fields) {
    if (!reserved && field.path == "fb_memory_usage/used") field.path = "fb_memory_usage/used_with_reserved";
  }
  return fields;
}

}  // namespace gpulens::compare

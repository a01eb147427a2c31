#include "cli/compare/tools/xml_reader.h"

#include <algorithm>
#include <optional>

#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"

namespace gpulens::compare {
namespace {

bool IsNameByte(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

bool IsBlank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

// One pass over the document. Open elements are on a stack of our own, so depth costs no stack of the
// thread.
class XmlParser {
 public:
  explicit XmlParser(std::string_view document) : all_(document), rest_(document) {}

  Result<XmlElement> Run() {
    while (!rest_.empty()) {
      Status status = rest_.front() == '<' ? TakeMarkup() : TakeText();
      if (!status) return status;
    }
    if (!open_.empty()) return Bad("the element <" + open_.back().name + "> is not closed");
    if (!root_) return Bad("there is no element");
    return *std::move(root_);
  }

 private:
  Status Bad(const std::string& what) const {
    auto line = 1 + std::count(all_.begin(), all_.end() - static_cast<ptrdiff_t>(rest_.size()), '\n');
    return {Code::kDataLoss, "XML, line " + std::to_string(line) + ": " + what};
  }

  // Drops all up to and with `end`.
  Status SkipPast(std::string_view end, const char* what) {
    size_t at = rest_.find(end);
    if (at == rest_.npos) return Bad(std::string(what) + " does not end");
    rest_.remove_prefix(at + end.size());
    return Ok();
  }

  Status TakeMarkup() {
    if (rest_.starts_with("<?")) return SkipPast("?>", "a processing instruction");
    if (rest_.starts_with("<!--")) return SkipPast("-->", "a comment");
    if (rest_.starts_with("<!DOCTYPE")) return TakeDocumentType();
    if (rest_.starts_with("<!")) return Bad("a section or declaration that is not supported");
    if (rest_.starts_with("</")) return TakeEnd();
    return TakeStart();
  }

  Status TakeDocumentType() {
    size_t at = rest_.find_first_of("[>");
    if (at == rest_.npos) return Bad("the document type does not end");
    if (rest_[at] == '[')
      return Bad("the document type has declarations; external entities are not supported");
    if (root_ || !open_.empty()) return Bad("a document type inside the document");
    rest_.remove_prefix(at + 1);
    return Ok();
  }

  Result<std::string> TakeName() {
    size_t length = 0;
    while (length < rest_.size() && IsNameByte(rest_[length])) ++length;
    if (length == 0) return Bad("expected a name");
    if (length > kMostXmlNameBytes) return Status{Code::kExhausted, "XML: a name is too long"};
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }

  void SkipBlanks() {
    while (!rest_.empty() && IsBlank(rest_.front())) rest_.remove_prefix(1);
  }

  Status TakeStart() {
    rest_.remove_prefix(1);
    if (root_) return Bad("a second element at the root");
    if (open_.size() >= kMostXmlDepth) {
      return {Code::kExhausted,
              "XML: elements are nested more than " + std::to_string(kMostXmlDepth) + " deep"};
    }
    if (++elements_ > kMostXmlElements) return {Code::kExhausted, "XML: too many elements"};
    XmlElement element;
    ASSIGN_OR_RETURN(element.name, TakeName());
    while (true) {
      SkipBlanks();
      if (rest_.starts_with("/>")) {
        rest_.remove_prefix(2);
        open_.push_back(std::move(element));
        return Close();
      }
      if (rest_.starts_with('>')) {
        rest_.remove_prefix(1);
        open_.push_back(std::move(element));
        return Ok();
      }
      if (Status status = TakeAttribute(element); !status) return status;
    }
  }

  Status TakeAttribute(XmlElement& element) {
    if (++elements_ > kMostXmlElements) return {Code::kExhausted, "XML: too many attributes"};
    ASSIGN_OR_RETURN(std::string name, TakeName());
    SkipBlanks();
    if (!rest_.starts_with('=')) return Bad("the attribute " + name + " has no value");
    rest_.remove_prefix(1);
    SkipBlanks();
    if (rest_.empty() || (rest_.front() != '"' && rest_.front() != '\'')) {
      return Bad("the value of the attribute " + name + " is not quoted");
    }
    size_t end = rest_.find(rest_.front(), 1);
    if (end == rest_.npos) return Bad("the value of the attribute " + name + " does not end");
    std::string value;
    if (Status status = AppendText(rest_.substr(1, end - 1), value); !status) return status;
    rest_.remove_prefix(end + 1);
    element.attributes.emplace_back(std::move(name), std::move(value));
    return Ok();
  }

  Status TakeEnd() {
    rest_.remove_prefix(2);
    ASSIGN_OR_RETURN(std::string name, TakeName());
    SkipBlanks();
    if (!rest_.starts_with('>')) return Bad("the end of <" + name + "> is not closed");
    if (open_.empty() || open_.back().name != name) return Bad("</" + name + "> closes nothing");
    rest_.remove_prefix(1);
    return Close();
  }

  Status Close() {
    XmlElement element = std::move(open_.back());
    open_.pop_back();
    element.text = std::string(Trim(element.text));
    if (open_.empty()) root_ = std::move(element);
    else open_.back().children.push_back(std::move(element));
    return Ok();
  }

  Status TakeText() {
    std::string_view text = rest_.substr(0, rest_.find('<'));
    if (open_.empty()) {
      if (!Trim(text).empty()) return Bad("text outside the root");
    } else if (Status status = AppendText(text, open_.back().text); !status) {
      return status;
    }
    rest_.remove_prefix(text.size());
    return Ok();
  }

  // Appends text with its entities put in.
  Status AppendText(std::string_view text, std::string& out) {
    while (!text.empty()) {
      size_t at = std::min(text.find('&'), text.size());
      out += text.substr(0, at);
      text.remove_prefix(at);
      if (text.empty()) return Ok();
      size_t end = text.find(';');
      if (end == text.npos || end > 10) return Bad("an & that does not begin an entity");
      std::optional<uint32_t> point = PointOf(text.substr(1, end - 1));
      if (!point) return Bad("an entity that is not one of XML's own five");
      AppendUtf8(out, *point);
      text.remove_prefix(end + 1);
    }
    return Ok();
  }

  static std::optional<uint32_t> PointOf(std::string_view entity) {
    constexpr std::pair<std::string_view, char> kKnown[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (auto [name, meaning] : kKnown) {
      if (entity == name) return static_cast<uint32_t>(meaning);
    }
    if (!entity.starts_with('#')) return std::nullopt;
    entity.remove_prefix(1);
    const bool hexadecimal = entity.starts_with('x');
    if (hexadecimal) entity.remove_prefix(1);
    std::optional<uint32_t> point = ParseInt<uint32_t>(entity, hexadecimal ? 16 : 10);
    const bool blank = point && (*point == '\t' || *point == '\n' || *point == '\r');
    if (!point || (*point < 0x20 && !blank) || *point > 0x10FFFF || (*point >= 0xD800 && *point < 0xE000)) {
      return std::nullopt;
    }
    return point;
  }

  const std::string_view all_;
  std::string_view rest_;
  std::vector<XmlElement> open_;
  std::optional<XmlElement> root_;
  size_t elements_ = 0;  // and attributes
};

}  // namespace

const XmlElement* XmlElement::Child(std::string_view child_name) const noexcept {
  for (const XmlElement& child : children) {
    if (child.name == child_name) return &child;
  }
  return nullptr;
}

std::string_view XmlElement::ChildText(std::string_view child_name) const noexcept {
  const XmlElement* child = Child(child_name);
  return child ? std::string_view(child->text) : std::string_view();
}

Result<XmlElement> ParseXml(std::string_view document) {
  if (document.size() > kMostXmlBytes) {
    return Status{Code::kExhausted, "XML: more than " + std::to_string(kMostXmlBytes >> 20) + " MiB"};
  }
  if (document.starts_with("\xEF\xBB\xBF")) document.remove_prefix(3);
  if (!IsUtf8(document)) return Status{Code::kDataLoss, "XML: the text is not UTF-8"};
  if (document.find('\0') != document.npos) return Status{Code::kDataLoss, "XML: a NUL byte"};
  return XmlParser(document).Run();
}

}  // namespace gpulens::compare

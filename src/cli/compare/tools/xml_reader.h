// Reads a small XML document of another program into a tree: elements, attributes and text, nothing else of
// XML. A document type is passed over when it declares nothing; one that declares entities is refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens::compare {

struct XmlElement {
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string text;  // the text between its children, trimmed
  std::vector<XmlElement> children;

  // The first child of this name; null: there is none.
  const XmlElement* Child(std::string_view child_name) const noexcept;
  // The text of that child; empty when there is none.
  std::string_view ChildText(std::string_view child_name) const noexcept;
};

inline constexpr size_t kMostXmlBytes = 8u << 20;
inline constexpr size_t kMostXmlDepth = 32;
inline constexpr size_t kMostXmlElements = 200'000;
inline constexpr size_t kMostXmlNameBytes = 256;

// The element at the root. kDataLoss: this is no such document, with the line. kExhausted: it is larger or
// deeper than the limits above.
Result<XmlElement> ParseXml(std::string_view document);

}  // namespace gpulens::compare

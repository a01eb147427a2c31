#include "config/expand.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>

#include "base/files.h"
#include "base/text.h"

namespace gpulens {
namespace {

constexpr size_t kValueFileBytes = 64 << 10;
constexpr size_t kCredentialNameBytes = 255;
constexpr std::string_view kFilePrefix = "file:", kCredentialPrefix = "credential:",
                           kEnvironmentPrefix = "env:", kOtherwise = ":-";
constexpr std::string_view kDollarHint = "a $ itself is written $$";

bool IsVariableName(std::string_view name) {
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  return std::ranges::all_of(name, [](char c) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

// Expands the values of one tree.
class Expander {
 public:
  Expander(const SourceText& source, const ExpandFrom& from, ConfigProblems& problems)
      : source_(source), from_(from), problems_(problems) {}

  void Expand(YamlNode& node) {
    if (node.text.find('$') == std::string::npos) return;
    std::string out;
    bool secret = false, good = true;
    const std::string_view text = node.text;
    for (size_t at = 0; at < text.size();) {
      const std::string_view rest = text.substr(at);
      if (rest.starts_with("$$")) {
        out += '$';
        at += 2;
      } else if (rest.starts_with("${")) {
        const size_t end = rest.find('}');
        const size_t length = end == rest.npos ? rest.size() : end + 1;
        good = Replace(node, at, rest.substr(0, length), out, secret) && good;
        at += length;
      } else {
        out += rest[0];
        ++at;
      }
    }
    if (!good || out == node.text) return;
    bytes_ += out.size();
    if (bytes_ > kExpandedBytes) {
      Wrong(node, 0, node.text.size(), "the values of the file are longer than 1 MiB together", "");
      return;
    }
    node.text = std::move(out);
    node.replaced = true;
    node.secret = secret;
    node.literal = false;
  }

 private:
  // `whole` is "${…}", or what begins like it.
  bool Replace(const YamlNode& node, size_t at, std::string_view whole, std::string& out, bool& secret) {
    auto wrong = [&](std::string problem, std::string_view hint) {
      Wrong(node, at, whole.size(), std::move(problem), hint);
      return false;
    };
    if (!whole.ends_with('}')) return wrong("the } of ${ is missing", kDollarHint);
    std::string_view inner = whole.substr(2, whole.size() - 3);
    std::string text;
    if (inner.starts_with(kFilePrefix)) {
      const std::string path(inner.substr(kFilePrefix.size()));
      const Result<std::string>& read = Once(files_, from_.file, path);
      if (!read) return wrong("cannot read " + QuotedText(path) + ": " + read.error().detail, "");
      text = *read;
      secret = true;
    } else if (inner.starts_with(kCredentialPrefix)) {
      const std::string name(inner.substr(kCredentialPrefix.size()));
      if (!IsCredentialName(name))
        return wrong(QuotedText(name) + " is not a valid name of a credential", "letters, digits and . _ -");
      const Result<std::string>& read = Once(credentials_, from_.credential, name);
      if (!read)
        return wrong("cannot read the credential " + name + ": " + read.error().detail,
                     "LoadCredential=" + name + ":/path/to/file in the unit: systemctl edit gpulens");
      text = *read;
      secret = true;
    } else {
      if (inner.starts_with(kEnvironmentPrefix)) inner.remove_prefix(kEnvironmentPrefix.size());
      const size_t otherwise = inner.find(kOtherwise);
      const std::string_view name = inner.substr(0, otherwise);
      if (!IsVariableName(name))
        return wrong(QuotedText(name) + " is not a valid variable name", kDollarHint);
      const std::optional<std::string_view> value = from_.variable(name);
      if (value && (!value->empty() || otherwise == inner.npos)) text = *value;
      else if (otherwise != inner.npos) text = inner.substr(otherwise + kOtherwise.size());
      else
        return wrong("the environment variable " + std::string(name) + " is not set",
                     "${" + std::string(name) + ":-text} would be text; a $ itself is written $$");
    }
    if (!IsUtf8(text)) return wrong("its value is not UTF-8", "");
    if (out.size() + text.size() > kExpandedBytes) return wrong("its value is too long", "");
    out += text;
    return true;
  }

  using Texts = std::map<std::string, Result<std::string>>;

  const Result<std::string>& Once(Texts& texts,
                                  const std::function<Result<std::string>(const std::string&)>& read,
                                  const std::string& name) {
    auto found = texts.find(name);
    if (found != texts.end()) return found->second;
    Result<std::string> text = Status{Code::kUnavailable, "files are not read here"};
    if (read) text = read(name);
    return texts.emplace(name, std::move(text)).first->second;
  }

  void Wrong(const YamlNode& node, size_t at, size_t length, std::string problem, std::string_view hint) {
    problems_.Add(source_.SpotOf(node.literal ? node.Within(at, length) : node.mark), std::move(problem),
                  std::string(hint));
  }

  const SourceText& source_;
  const ExpandFrom& from_;
  ConfigProblems& problems_;
  Texts files_, credentials_;
  size_t bytes_ = 0;
};

}  // namespace

bool IsCredentialName(std::string_view name) {
  if (name.empty() || name.size() > kCredentialNameBytes || name[0] == '.') return false;
  return name.find("..") == name.npos && std::ranges::all_of(name, [](char c) {
           return c == '_' || c == '-' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                  (c >= '0' && c <= '9');
         });
}

void ExpandValues(YamlTree& tree, const SourceText& source, const ExpandFrom& from,
                  ConfigProblems& problems) {
  Expander expander(source, from, problems);
  for (YamlNode& node : tree.nodes()) {
    if (node.kind == YamlNode::kScalar) expander.Expand(node);
  }
}

std::string EscapeDollars(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t dollars = std::min(text.find_first_not_of('$'), text.size());
    const bool alone = dollars == 1 && !text.substr(1).starts_with('{');
    out.append(alone ? 1 : 2 * dollars, '$');
    text.remove_prefix(dollars);
    const size_t plain = std::min(text.find('$'), text.size());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
  }
  return out;
}

Result<std::string> ReadValueFile(const std::string& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return ErrnoStatus("open", errno);
  if (!S_ISREG(facts.st_mode)) return Status{Code::kInvalidArgument, "it is not a regular file"};
  Result<std::string> text = ReadFile(path, kValueFileBytes);
  while (text && !text->empty() && (text->back() == '\n' || text->back() == '\r')) text->pop_back();
  return text;
}

}  // namespace gpulens

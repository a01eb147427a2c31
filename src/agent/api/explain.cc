#include "agent/api/explain.h"

#include "base/parse.h"
#include "base/result.h"
#include "catalog/codes/codes.h"
#include "catalog/events.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

void AddCodeFacts(JsonObject& root, std::string_view kind, const CodeFacts& facts) {
  JsonObject object(root.Key("code"));
  object.Text("kind", kind);
  object.Text("code", facts.code);
  object.TextIfAny("name", facts.name);
  object.TextIfAny("meaning", facts.meaning);
  object.TextIfAny("class", facts.klass);
  object.TextIfAny("severity", facts.severity);
  object.TextIfAny("action", facts.action);
  object.TextIfAny("do", ActionSentence(facts.action));
}

struct FoundCode {
  std::string_view kind;
  const CodeFacts* facts = nullptr;  // null: not in the request
};

Result<FoundCode> CodeOf(const ApiRequest& request) {
  for (const auto& [parameter, kind] : {std::pair("xid", "XID"), std::pair("sxid", "SXid")}) {
    const std::string* text = request.Find(parameter);
    if (!text) continue;
    const auto number = ParseInt<int64_t>(*text);
    const CodeFacts* facts = !number                                ? nullptr
                             : std::string_view(parameter) == "xid" ? FindXid(*number)
                                                                    : FindSxid(*number);
    if (!facts) return Status{Code::kInvalidArgument, std::string("no ") + kind + " \"" + *text + "\""};
    return FoundCode{kind, facts};
  }
  const std::string* message = request.Find("message");
  if (!message) return FoundCode{};
  const CodeFacts* facts = FindMessage(*message);
  if (!facts) return Status{Code::kInvalidArgument, "no message \"" + *message + "\""};
  return FoundCode{"message", facts};
}

}  // namespace

void AddExplainPage(Api& api) {
  api.Add("/api/explain", [](const ApiRequest& request) -> Result<std::string> {
    const std::string* name = request.Find("event");
    const EventDesc* event = name ? FindEvent(*name) : nullptr;
    if (name && !event) return Status{Code::kInvalidArgument, "no event \"" + *name + "\""};
    ASSIGN_OR_RETURN(const FoundCode code, CodeOf(request));
    if (!event && !code.facts)
      return Status{Code::kInvalidArgument, "explain what? event=, xid=, sxid= or message="};
    return JsonDocumentText("gpulens.explained/1", [&](JsonObject& root) {
      if (event) {
        JsonObject object(root.Key("event"));
        object.Text("name", event->name);
        object.Text("help", event->help);
      }
      if (code.facts) AddCodeFacts(root, code.kind, *code.facts);
    });
  });
}

}  // namespace gpulens

#include "cli/commands.h"

#include <unistd.h>

#include "base/text.h"
#include "catalog/codes/codes.h"
#include "cli/check/check_table.h"
#include "cli/collect/collect_command.h"
#include "cli/common/output.h"
#include "cli/engines/engines_list.h"
#include "cli/events/events_command.h"
#include "scrape/engine/engine_row.h"
#include "wire/json/json_object.h"

namespace gpulens {
namespace {

// A page on one meaning of the word, which may have several.
struct ExplainedPage {
  const char* kind;
  std::string text;
};

std::vector<ExplainedPage> PagesOf(const std::string& word, std::string& nearest) {
  std::vector<ExplainedPage> pages;
  if (std::string text = CodePage(word); !text.empty()) pages.push_back({"code", std::move(text)});
  if (std::string text = MetricPage(word, nearest); !text.empty())
    pages.push_back({"metric", std::move(text)});
  if (const CheckSpec* check = FindCheck(word)) pages.push_back({"check", CheckPage(*check)});
  if (const engine_page::Engine* engine = engine_page::FindEngine(word))
    pages.push_back({"engine", EnginesTable(engine)});
  return pages;
}

int Unknown(const std::string& word, std::string_view nearest_metric) {
  std::vector<std::string_view> words;
  if (!nearest_metric.empty()) words.push_back(nearest_metric);
  for (const CheckSpec& check : AllChecks()) words.push_back(check.name);
  for (std::string_view engine : EngineNames()) words.push_back(engine);
  std::string text = "no code, metric, check or engine \"" + word + "\"." + DidYouMean(word, words);
  text += " XIDs are 1 to " + std::string(AllXids().back().code) + ", SXids " +
          std::string(AllSxids().front().code) + " to " + std::string(AllSxids().back().code) + ".";
  return FailCommand("explain", text + " gpulens explain --help", 2);
}

}  // namespace

int RunExplain(const std::vector<std::string>& words, bool json) {
  const std::string word = Joined(words, " ");
  std::string nearest;
  const std::vector<ExplainedPage> pages = PagesOf(word, nearest);
  if (pages.empty()) return Unknown(word, nearest);
  std::string out;
  if (!json) {
    for (const ExplainedPage& page : pages) out += (out.empty() ? "" : "\n") + page.text;
  } else {
    out = JsonDocumentText("gpulens.explain/1", [&](JsonObject& root) {
      root.Text("word", word);
      root.List("pages", pages, [](std::string& to, const ExplainedPage& page) {
        JsonObject object(to);
        object.Text("kind", page.kind);
        object.Text("text", page.text);
      });
    });
  }
  return (json ? WriteOut(out) : WriteText(out)) ? 0 : 1;
}

}  // namespace gpulens

// The page /api/why as text for people, and the table of rules. Pure; AddWhy of cli/help/help.h adds the
// command.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpulens/status.h>

namespace gpulens {

// The page, as far as it is shown. Another program may have made it: members that are not known are left out.
struct WhyPage {
  struct Evidence {
    std::string name, unit, is;
    std::vector<std::pair<std::string, std::string>> attributes;
    double value = kNotMeasured;
  };
  struct Finding {
    std::string rule, title, subject, sentence, confidence, formula, advice, source, job;
    int64_t since_ms = 0;
    bool since_begin = false, at_most = false;
    double cost = kNotMeasured;
    std::vector<Evidence> evidence;
  };
  struct Row {
    std::string title, subjects, reason;
  };
  int64_t from_ms = 0, to_ms = 0;
  bool simulated = false;
  int wait_seconds = 0;  // until a history that has just begun suffices
  std::vector<Finding> findings;
  std::vector<Row> looked, unknown;
};

// kDataLoss: invalid JSON, or another page. kExhausted: more than 100,000 rows.
Result<WhyPage> ParseWhyPage(std::string_view json);

// `where`: "the agent at …".
std::string WhyText(const WhyPage& page, std::string_view where);

// The table of rules of this program: for a terminal, as Markdown for docs/why.md, or as JSON.
std::string WhyRulesText();
std::string WhyRulesMarkdown();
std::string WhyRulesJson();

}  // namespace gpulens

#include "agent/cli/engines/engines_list.h"

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace gpulens {
namespace {

using engine_page::AllEngines;
using engine_page::Engine;
using engine_page::EngineRow;

constexpr NotOffered kNotOffered[] = {
    {"tgi", "TimeToFirstToken", "queue and prefill of a batch would be a guess, and is not shown as it"},
    {"tgi", "InterTokenLatency", "only the mean per request: TimePerOutputToken"},
    {"triton", "RequestsRunning", "tells what is pending, not what runs"},
    {"triton", "PromptTokens", "serves any model, not only LLMs; its backends tell tokens"},
    {"triton", "GenerationTokens", "serves any model, not only LLMs; its backends tell tokens"},
    {"triton", "KvCacheUsage", "its backends have it"},
    {"triton-tensorrtllm", "RequestDuration", "Triton's own families, on the same page, tell it"},
    {"triton-tensorrtllm", "RequestsFinished", "Triton's own families, on the same page, tell it"},
    {"nim", "BatchSize",
     "no family; requests running are those admitted at one moment, not an executed batch"},
    {"llama.cpp", "RequestDuration", "llama-server keeps no times of requests"},
    {"llama.cpp", "TimeToFirstToken", "llama-server keeps no times of requests"},
    {"tei", "RequestsRunning", "tells its queue alone"},
    {"tei", "GenerationTokens", "makes embeddings, no text"},
    {"tei", "TimeToFirstToken", "makes embeddings, no text"},
    {"tei", "KvCacheUsage", "embedding models keep no KV cache"},
    {"xinference", "RequestsRunning", "running and waiting are one number: RequestsInFlight"},
    {"xinference", "RequestsWaiting", "running and waiting are one number: RequestsInFlight"},
    {"xinference", "RequestDuration", "the time of a stream ends when it begins"},
    {"xinference", "RequestsFinished", "failed ones are counted, too: RequestsAdmitted and RequestsFailed"},
    {"ollama", "RequestsRunning", "has no page; its exporters do not see its queue"},
    {"ollama", "RequestsWaiting", "has no page; its exporters do not see its queue"},
};

// The layers in the order in which a request meets them, the last first.
constexpr std::string_view kLayers[] = {"engine", "worker", "cache", "router", "gateway"};

std::string Padded(std::string_view text, size_t width) {
  std::string out(text);
  out.resize(std::max(out.size() + 2, width), ' ');
  return out;
}

std::span<const EngineRow> ReadRows(const Engine& engine) noexcept {
  return engine.reads.empty() ? std::span<const EngineRow>() : engine_page::FindEngine(engine.reads)->rows;
}

// The families that have the role, each once.
std::vector<std::string_view> FamiliesOf(const Engine& engine, const Role& role) {
  std::vector<std::string_view> out;
  for (std::span<const EngineRow> rows : {engine.rows, ReadRows(engine)}) {
    for (const EngineRow& row : rows) {
      if (row.metric == role.metric && std::find(out.begin(), out.end(), row.family) == out.end())
        out.push_back(row.family);
    }
  }
  return out;
}

size_t CountFamilies(const Engine& engine) {
  size_t count = 0;
  std::string_view last;
  for (const EngineRow& row : engine.rows) {
    count += row.family != last;
    last = row.family;
  }
  return count;
}

size_t CountRoles(const Engine& engine) {
  std::span<const Role> roles = AllRoles();
  return static_cast<size_t>(
      std::count_if(roles.begin(), roles.end(), [&](const Role& role) { return Offers(engine, role); }));
}

std::string PageOf(const Engine& engine) {
  return ":" + std::to_string(engine.port) + std::string(engine.path);
}

std::string OneTable(const Engine& engine) {
  std::string out = std::string(engine.name) + "   layer " + std::string(engine.layer) + ", page at " +
                    PageOf(engine) + ", known by " + std::string(engine.recognised) + "\n\n";
  out += Padded("ROLE", 28) + Padded("METRIC", 44) + "FAMILIES\n";
  for (const Role& role : AllRoles()) {
    std::vector<std::string_view> families = FamiliesOf(engine, role);
    if (families.empty()) continue;
    out += Padded(role.name, 28) + Padded(role.metric->name, 44);
    for (std::string_view family : families)
      out += (family == families.front() ? "" : " ") + std::string(family);
    out += '\n';
  }
  for (const NotOffered& row : kNotOffered) {
    if (row.engine != engine.name) continue;
    out += "not offered   " + std::string(row.role) + ": " + std::string(row.reason) + "\n";
  }
  return out;
}

void AppendMatrix(std::string& out, const std::vector<const Engine*>& engines) {
  out += "| role | metric |";
  for (const Engine* engine : engines) out += " " + std::string(engine->name) + " |";
  out += "\n|---|---|";
  for (size_t i = 0; i < engines.size(); ++i) out += "---|";
  out += '\n';
  for (const Role& role : AllRoles()) {
    bool any = std::any_of(engines.begin(), engines.end(), [&](const Engine* e) { return Offers(*e, role); });
    if (!any) continue;
    out += "| " + std::string(role.name) + " | `" + std::string(role.metric->name) + "` |";
    for (const Engine* engine : engines) out += Offers(*engine, role) ? " yes |" : " – |";
    out += '\n';
  }
}

void AppendTexts(std::string& out, std::string_view key, const std::vector<std::string_view>& texts) {
  AppendJsonString(out, key);
  out += ":[";
  for (std::string_view text : texts) {
    if (out.back() != '[') out += ',';
    AppendJsonString(out, text);
  }
  out += ']';
}

void AppendFieldAndComma(std::string& out, std::string_view key, std::string_view value) {
  AppendJsonString(out, key);
  out += ':';
  AppendJsonString(out, value);
  out += ',';
}

void AppendEngine(std::string& out, const Engine& engine) {
  out += "\n{";
  AppendFieldAndComma(out, "name", engine.name);
  AppendFieldAndComma(out, "layer", engine.layer);
  AppendFieldAndComma(out, "provider", engine.provider);
  AppendFieldAndComma(out, "path", engine.path);
  out += "\"port\":" + std::to_string(engine.port) +
         ",\"families\":" + std::to_string(CountFamilies(engine)) + ",\"roles\":[";
  for (const Role& role : AllRoles()) {
    std::vector<std::string_view> families = FamiliesOf(engine, role);
    if (families.empty()) continue;
    out += out.back() == '[' ? "\n {" : ",\n {";
    AppendFieldAndComma(out, "role", role.name);
    AppendFieldAndComma(out, "metric", role.metric->name);
    AppendTexts(out, "families", families);
    out += '}';
  }
  out += "],\"not_offered\":[";
  for (const NotOffered& row : kNotOffered) {
    if (row.engine != engine.name) continue;
    out += out.back() == '[' ? "{" : ",{";
    AppendFieldAndComma(out, "role", row.role);
    AppendFieldAndComma(out, "reason", row.reason);
    out.back() = '}';
  }
  out += "]}";
}

}  // namespace

std::span<const NotOffered> KnownNotOffered() noexcept { return kNotOffered; }

bool Offers(const Engine& engine, const Role& role) noexcept {
  for (std::span<const EngineRow> rows : {engine.rows, ReadRows(engine)}) {
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const EngineRow& row) { return row.metric == role.metric; }))
      return true;
  }
  return false;
}

std::string EnginesTable(const Engine* one) {
  if (one) return OneTable(*one);
  std::string out = Padded("ENGINE", 22) + Padded("LAYER", 9) + Padded("PAGE", 28) + Padded("FAMILIES", 10) +
                    Padded("ROLES", 7) + "KNOWN BY\n";
  for (const Engine& engine : AllEngines()) {
    out += Padded(engine.name, 22) + Padded(engine.layer, 9) + Padded(PageOf(engine), 28) +
           Padded(std::to_string(CountFamilies(engine)), 10) + Padded(std::to_string(CountRoles(engine)), 7) +
           std::string(engine.recognised) + "\n";
  }
  return out + "\nThe roles of one: gpulens engines list vllm. All roles by engine: --format md\n";
}

std::string EnginesJson(const Engine* one) {
  std::string out = "{\"schema\":\"gpulens.engines/1\",\"engines\":[";
  for (const Engine& engine : AllEngines()) {
    if (one && one != &engine) continue;
    if (out.back() != '[') out += ',';
    AppendEngine(out, engine);
  }
  return out + "\n]}\n";
}

std::string EnginesMarkdown() {
  std::string out =
      "# LLM engines\n\nMade by `gpulens engines list --format md`; a test fails when this page is stale.\n\n"
      "The pages of these engines, routers, gateways and caches become one vocabulary: the family of an "
      "engine "
      "has a\n"
      "role, and from the role follow its name `inference.*`, its unit and every other name. Several on one "
      "page\n"
      "are told apart by their families. A page is looked at with\n\n"
      "    gpulens engines check http://127.0.0.1:8000/metrics     what is known on it, and what is not\n"
      "    gpulens engines read http://127.0.0.1:8000/metrics      how the engine does\n\n"
      "A family that is new or renamed is one row of `src/scraping/engine/tables`; `check` prints it, ready "
      "to be put\n"
      "right. `tools/engine_pages.py ENGINE` makes a page of what a table holds, for engines that are not at "
      "hand.\n\n"
      "How to configure a target: [collectors/engines.md](collectors/engines.md). Which engines were run for "
      "real, "
      "and what\n"
      "that taught: [engines-tested.md](engines-tested.md).\n\n"
      "## Known engines\n\n"
      "| engine | layer | page | gen_ai.provider.name | known by | families |\n|---|---|---|---|---|---|\n";
  for (const Engine& engine : AllEngines()) {
    out += "| " + std::string(engine.name) + " | " + std::string(engine.layer) + " | `" + PageOf(engine) +
           "` | " + std::string(engine.provider) + " | `" + std::string(engine.recognised) + "` | " +
           std::to_string(CountFamilies(engine)) + " |\n";
  }
  out +=
      "\nOne request passes several layers, and each counts it: a sum goes over one layer. These stand for "
      "others:\n"
      "\n| prefix on a page | read as |\n|---|---|\n";
  for (const engine_page::Prefix& prefix : engine_page::AllPrefixes()) {
    out += "| `" + std::string(prefix.prefix) + "` | `" + std::string(prefix.stands_for) + "` |\n";
  }
  out +=
      "\nTriton's vLLM backend shows the families of vllm beside Triton's own. NIM 1.x has names without a "
      "prefix, so\n"
      "it must be configured as `engine: nim`; later ones show those of vllm. The start time and the memory "
      "of the\n"
      "process are read from any page that has them.\n";
  for (std::string_view layer : kLayers) {
    std::vector<const Engine*> engines;
    for (const Engine& engine : AllEngines()) {
      if (engine.layer == layer) engines.push_back(&engine);
    }
    out += "\n## Roles: layer `" + std::string(layer) + "`\n\n";
    if (layer == kLayers[0])
      out += "yes: some version of the engine tells it. –: not offered by the engine.\n\n";
    AppendMatrix(out, engines);
  }
  out += "\n## Not offered, and why\n\n| engine | role | why |\n|---|---|---|\n";
  for (const NotOffered& row : kNotOffered) {
    out += "| " + std::string(row.engine) + " | " + std::string(row.role) + " | " + std::string(row.reason) +
           " |\n";
  }
  return out;
}

}  // namespace gpulens

// `gpulens proxy`: the proxy that meters LLM APIs, and its keys.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/files.h"
#include "base/parse.h"
#include "base/result.h"
#include "base/text.h"
#include "cli/common/output.h"
#include "cli/help/help.h"
#include "cli/proxy/proxy_options.h"
#include "cli/proxy/proxy_run.h"
#include "config/print.h"
#include "pricing/list_prices.h"
#include "proxy/admission/keys.h"
#include "proxy/llm_proxy.h"
#include "wire/json/json_object.h"
#include "wire/llm/llm_routes.h"

namespace gpulens {

namespace {

constexpr const char* kProxyFooter = R"(
  gpulens proxy --config proxy.yaml
  gpulens proxy --config proxy.yaml --check          is it right, and what it means
  gpulens proxy --print-routes                       paths that are metered, free and refused
  gpulens proxy --print-config                       every key with its default
  gpulens proxy keys new --id ada --tenant acme --config proxy.yaml

A client sends its virtual key where the provider's would be (Authorization, x-api-key, …).
SIGHUP reads keys, prices, providers, routes and budgets again. docs/proxy.md.
Exit: 0 stopped by Ctrl-C or SIGTERM · 1 cannot run · 2 wrong configuration)";

constexpr const char* kKeysFooter = R"(
  gpulens proxy keys new --id ada --tenant acme          prints the key once, and adds its line
  gpulens proxy keys new --id ci --tenant acme --budgets 25/month --models 'gpt-*'
  gpulens proxy keys list

The file has hashes of the keys, not the keys: who loses one needs a new one. To end a key, set its
state to revoked, and send the proxy SIGHUP.
Exit: 0 done · 1 the file cannot be read or written · 2 wrong use)";

struct ProxyCommandOptions {
  std::string config_file;
  bool check = false, print_routes = false, print_prices = false, print_config = false, markdown = false;
  // Of keys.
  std::string keys_file, id, tenant, project, models, budgets, expires, profile;
  int64_t rpm = 0, tpm = 0, streams = 0, default_max_tokens = 0;
  bool json = false;
};

std::string FileOf(const ProxyCommandOptions& options) {
  if (!options.config_file.empty()) return options.config_file;
  const char* variable = std::getenv("GPULENS_PROXY_CONFIG");
  if (variable && *variable) return variable;
  constexpr const char* kSystem = "/etc/gpulens/proxy.yaml";
  return ::access(kSystem, R_OK) == 0 ? kSystem : "";
}

int PrintRoutes() {
  constexpr std::string_view kAccess[] = {"metered", "free", "not for keys with a budget", "unknown"};
  std::string out = "METHOD  ACCESS                      API        PATH\n";
  for (const LlmRoute& route : LlmRoutes()) {
    if (route.access == LlmAccess::kUnknown) continue;
    std::string line;
    line.append(route.method).resize(8, ' ');
    line.append(kAccess[static_cast<size_t>(route.access)]).resize(36, ' ');
    line.append(LlmApiName(route.api)).resize(47, ' ');
    out += line.append(route.path) + "\n";
  }
  return WriteText(out) ? 0 : 1;
}

int Check(const proxy::ProxyOptions& options, const std::string& file) {
  int code = 0;
  std::string out = (file.empty() ? std::string("no file") : file) + ": good.\n";
  const Result<proxy::KeyTable> keys = proxy::KeyTable::Load(options.keys_file);
  if (keys) {
    out += options.keys_file + ": " + std::to_string(keys->keys().size()) + " keys\n";
  } else {
    out += options.keys_file + ": " + keys.error().detail + "\n";
    if (::access(options.keys_file.c_str(), F_OK) != 0)
      out += "the first key: gpulens proxy keys new --id NAME --tenant NAME --config " + file + "\n";
    code = 2;
  }
  Result<pricing::PriceTable> prices = proxy::LoadPrices(options);
  if (prices) {
    for (const pricing::PriceTable::Source& source : prices->sources()) {
      out += "prices " + source.name;
      if (source.name == proxy::kBuiltinPrices) out += " of " + std::string(pricing::kListPricesDay);
      out += ": " + Plural(source.rows, "row", "rows") + " of these providers";
      if (source.disputed > 0) out += ", " + std::to_string(source.disputed) + " disputed";
      out += "\n";
    }
    if (prices->models() == 0) out += "no price is known: no key with a budget can use a managed provider\n";
  } else {
    out += prices.error().detail + "\n";
    code = 2;
  }
  for (const proxy::ProviderConfig& provider : options.config.providers)
    out += "provider " + provider.name + ": " + provider.upstream.url.Shown() + ", " +
           std::string(pricing::ProfileName(provider.terms.profile)) +
           (provider.credential.empty() ? ", with the client's own key" : "") + "\n";
  for (const proxy::BudgetSpec& budget : options.budgets)
    out += "budget " + budget.name + ": " + pricing::UsdText(pricing::PicoSum(budget.limit_pico)) +
           " USD a " + proxy::BudgetWindowText(budget.window) +
           (budget.mode == proxy::BudgetMode::kHard ? ", hard" : ", soft") + "\n";
  return WriteText(out) ? code : 1;
}

int RunCommand(const ProxyCommandOptions& options) {
  if (options.print_routes) return PrintRoutes();
  if (options.print_prices) return WriteText(pricing::ListPrices()) ? 0 : 1;
  if (options.print_config)
    return WriteText(options.markdown ? PrintMarkdownSchema(ProxySchema()) : PrintSchema(ProxySchema())) ? 0
                                                                                                         : 1;
  const std::string file = FileOf(options);
  if (!options.check) return RunProxy(file);
  LoadOutcome loaded;
  proxy::ProxyOptions made;
  return LoadProxyOptions(file, loaded, made) ? Check(made, file) : 2;
}

// The file of keys: named, else that of the configuration.
std::string KeysFile(const ProxyCommandOptions& options) {
  if (!options.keys_file.empty()) return options.keys_file;
  const LoadOutcome loaded = LoadProxyConfig(FileOf(options));
  if (!loaded.config.Text("keys").empty()) return loaded.config.Text("keys");
  const std::string state = ProxyStateDir(loaded.config);
  return state.empty() ? state : state + "/keys.tsv";
}

int NewKeyCommand(const ProxyCommandOptions& options) {
  const std::string path = KeysFile(options);
  if (path.empty())
    return FailCommand("proxy keys", "there is no state folder here; name a file with --file", 2);
  const auto number = [](int64_t value) { return value > 0 ? std::to_string(value) : std::string(); };
  const std::string rpm = number(options.rpm), tpm = number(options.tpm), streams = number(options.streams),
                    most = number(options.default_max_tokens);
  const proxy::KeyCell cells[] = {{"id", options.id},
                                  {"tenant", options.tenant},
                                  {"project", options.project},
                                  {"models", options.models},
                                  {"budgets", options.budgets},
                                  {"expires", options.expires},
                                  {"profile", options.profile},
                                  {"rpm", rpm},
                                  {"tpm", tpm},
                                  {"streams", streams},
                                  {"default_max_tokens", most}};
  const Result<proxy::VirtualKey> settings = proxy::KeyOf(cells);
  if (!settings) return FailCommand("proxy keys", settings.error().detail, 2);
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  if (exists) {
    const Result<proxy::KeyTable> present = proxy::KeyTable::Load(path);
    if (!present) return FailCommand("proxy keys", present.error().detail, 1);
    if (present->Find(options.id) != nullptr)
      return FailCommand("proxy keys", path + " has a key " + options.id + " already; take another id", 2);
    const Result<std::string> whole = ReadFile(path, proxy::KeyTable::kMostFileBytes);
    if (!whole) return FailCommand("proxy keys", path + ": " + whole.error().detail, 1);
    std::string_view rest = *whole;
    std::string_view first = TakeUntil(rest, '\n');
    while (first.starts_with('#')) first = TakeUntil(rest, '\n');
    if (first != proxy::kKeyColumns)
      return FailCommand(
          "proxy keys",
          path + " has other columns than a new file; add a line by hand, or name another file with --file",
          1);
  }
  const Result<proxy::NewKey> made = proxy::MakeKey(*settings);
  if (!made) return FailCommand("proxy keys", made.error().detail, 1);
  if (!exists) {
    if (const Status status = MakeFoldersAbove(path); !status)
      return FailCommand("proxy keys", status.detail, 1);
  }
  UniqueFd out(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = (exists ? "" : std::string(proxy::kKeyColumns) + "\n") + made->line + "\n";
  if (!out || ::write(out.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return FailCommand("proxy keys", path + " cannot be written", 1);
  WriteNote("added to " + path + "; a running proxy reads it at SIGHUP. The key is shown this once:");
  return WriteText(made->key + "\n") ? 0 : 1;
}

// Empty: that of the provider.
std::string ProfileOf(const proxy::VirtualKey& key) {
  return std::string(key.profile ? pricing::ProfileName(*key.profile) : "");
}

// {"schema":"gpulens.proxy_keys/1","keys":[…]}: without digests.
std::string KeysJson(const proxy::KeyTable& keys) {
  const auto text = [](std::string& out, const std::string& item) { AppendJsonString(out, item); };
  std::string out;
  {
    JsonObject object(out);
    object.Text("schema", "gpulens.proxy_keys/1");
    object.List("keys", keys.keys(), [&](std::string& at, const proxy::VirtualKey& key) {
      JsonObject one(at);
      one.Text("id", key.id);
      one.Text("tenant", key.tenant);
      one.TextIfAny("project", key.project);
      one.TextIfAny("profile", ProfileOf(key));
      one.Text("state", key.revoked ? "revoked" : "active");
      if (!key.models.empty()) one.List("models", key.models, text);
      if (!key.budgets.empty()) one.List("budgets", key.budgets, text);
      if (!key.own_budgets.empty())
        one.List("own_budgets", key.own_budgets,
                 [](std::string& to, const proxy::VirtualKey::OwnBudget& own) {
                   AppendJsonString(to, pricing::UsdText(pricing::PicoSum(own.limit_pico)) + "/" +
                                            proxy::BudgetWindowText(own.window));
                 });
      if (key.requests_per_minute > 0) one.Whole("rpm", key.requests_per_minute);
      if (key.tokens_per_minute > 0) one.Whole("tpm", key.tokens_per_minute);
      if (key.streams > 0) one.Whole("streams", key.streams);
      if (key.default_max_tokens > 0) one.Whole("default_max_tokens", key.default_max_tokens);
      if (key.expires_unix_ns > 0) one.Time("expires", key.expires_unix_ns);
      if (!key.allow_unmetered.empty()) one.List("allow_unmetered", key.allow_unmetered, text);
    });
  }
  return out + "\n";
}

int ListKeys(const ProxyCommandOptions& options) {
  const std::string path = KeysFile(options);
  const Result<proxy::KeyTable> keys = proxy::KeyTable::Load(path);
  if (!keys) return FailCommand("proxy keys", keys.error().detail, 1);
  if (options.json) return PrintText(KeysJson(*keys));
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  std::vector<std::string> head = {"ID", "TENANT", "PROFILE", "STATE", "MODELS"};
  std::string lines = Joined(head, "\t") + "\n";
  TextTable table(std::move(head));
  for (const proxy::VirtualKey& key : keys->keys()) {
    std::vector<std::string> cells = {key.id, key.tenant, ProfileOf(key).empty() ? "-" : ProfileOf(key),
                                      key.revoked ? "revoked" : "active",
                                      key.models.empty() ? "*" : Joined(key.models, ",")};
    if (!terminal) lines += Joined(cells, "\t") + "\n";
    else table.Add(std::move(cells));
  }
  // Aligned for people; programs get a tab between two cells.
  if (!terminal) return PrintText(lines);
  return WriteOut(table.Text(static_cast<size_t>(TerminalColumns(STDOUT_FILENO)))) ? 0 : 1;
}

}  // namespace

void AddProxy(CLI::App& app, int& code) {
  auto kept = std::make_shared<ProxyCommandOptions>();
  ProxyCommandOptions& options = *kept;
  CLI::App* command =
      app.add_subcommand("proxy", "Meter requests to LLM APIs, with keys, prices and budgets.");
  command->group("LLM engines");
  command->footer(kProxyFooter);
  AddOption(*command, "--config", options.config_file,
            "Its file; default: $GPULENS_PROXY_CONFIG, /etc/gpulens/proxy.yaml", "FILE");
  command->add_flag("--check", options.check, "Read the file, keys and prices, and print what they mean");
  command->add_flag("--print-routes", options.print_routes, "Print the paths it knows");
  command->add_flag("--print-prices", options.print_prices,
                    "Print the list prices that the program has, as a price file");
  command->add_flag("--print-config", options.print_config,
                    "Print every key with its type, default and meaning");
  command->add_flag("--markdown", options.markdown, "Of --print-config: as the table of docs/proxy.md");
  command->require_subcommand(0, 1);
  command->callback([kept, command, &code] {
    if (command->get_subcommands().empty()) code = RunCommand(*kept);
  });

  CLI::App* keys = command->add_subcommand("keys", "Make and list virtual keys.");
  keys->footer(kKeysFooter);
  keys->require_subcommand(1);
  CLI::App* make = keys->add_subcommand("new", "Make a key, print it once, and add its line to the file.");
  CLI::App* list = keys->add_subcommand("list", "List keys, without secrets.");
  for (CLI::App* one : {make, list}) {
    AddOption(*one, "--config", options.config_file, "The proxy's file, which names the file of keys",
              "FILE");
    AddOption(*one, "--file", options.keys_file, "The file of keys", "FILE");
  }
  AddOption(*make, "--id", options.id, "Public name: letters, digits and hyphens", "ID")->required();
  AddOption(*make, "--tenant", options.tenant, "Who pays", "NAME")->required();
  AddOption(*make, "--project", options.project, "A part of the tenant", "NAME");
  AddOption(*make, "--models", options.models, "Patterns, comma-separated; default: all", "LIST");
  AddOption(*make, "--budgets", options.budgets, "Names, or amounts of its own: 25.50/month,3/day", "LIST");
  AddOption(*make, "--expires", options.expires, "A date or an RFC 3339 time", "TIME");
  AddOption(*make, "--profile", options.profile,
            "managed, byok, subscription or byoc; default: the provider's", "WORD");
  make->add_option("--rpm", options.rpm, "Requests a minute");
  make->add_option("--tpm", options.tpm, "Tokens a minute");
  make->add_option("--streams", options.streams, "Streams at once");
  make->add_option("--default-max-tokens", options.default_max_tokens,
                   "Set where a request has no limit of its own");
  make->callback([kept, &code] { code = NewKeyCommand(*kept); });
  list->add_flag("--json", options.json, "JSON, with all that a key has but its hash");
  list->callback([kept, &code] { code = ListKeys(*kept); });
}

}  // namespace gpulens

#include "migrator/command_line.h"

#include <boost/program_options.hpp>
#include <map>
#include <sstream>

namespace sf {
namespace {

namespace po = boost::program_options;

constexpr const char* kSummary =
    "slotferry moves slots between groups of a live Codis cluster while clients keep writing.\n"
    "\n"
    "  slotferry plan --dashboard H:P --product NAME --slots 901-1023 --to GROUP\n"
    "                 --shim H:P --shim-admin H:P --out plan.json\n"
    "  slotferry preflight plan.json     look only: what would stop the move, with evidence\n"
    "  slotferry run plan.json           the whole move; killed or stopped, run it again and it "
    "goes on\n"
    "  slotferry status | watch | journal | report plan.json\n"
    "  slotferry cutover plan.json [SLOTS]    switch these slots now\n"
    "  slotferry verify plan.json        compare both sides, both ways\n"
    "  slotferry handback plan.json      map the switched slots to their new group\n"
    "  slotferry cleanup plan.json --yes delete the copies nobody owns\n"
    "  slotferry detach plan.json        remove the shim's group from the dashboard\n"
    "  slotferry abort plan.json         take everything back; only while no slot is switched\n"
    "\n"
    "slotferry COMMAND --help tells a command's options.\n";

struct CommandRow {
  Command command;
  bool takes_plan;
};
const std::map<std::string, CommandRow>& command_rows() {
  static const std::map<std::string, CommandRow> rows = {
      {"plan", {Command::kPlan, false}},      {"preflight", {Command::kPreflight, true}},
      {"run", {Command::kRun, true}},         {"status", {Command::kStatus, true}},
      {"watch", {Command::kWatch, true}},     {"journal", {Command::kJournal, true}},
      {"cutover", {Command::kCutover, true}}, {"handback", {Command::kHandback, true}},
      {"verify", {Command::kVerify, true}},   {"cleanup", {Command::kCleanup, true}},
      {"detach", {Command::kDetach, true}},   {"abort", {Command::kAbort, true}},
      {"report", {Command::kReport, true}},
  };
  return rows;
}

po::options_description plan_options() {
  po::options_description options("slotferry plan");
  options.add_options()("dashboard", po::value<std::string>(), "host:port of codis-dashboard")(
      "product", po::value<std::string>(), "product name of the Codis cluster")(
      "product-auth", po::value<std::string>()->default_value(""),
      "its product_auth; the servers' password too")("slots", po::value<std::string>(),
                                                     "slots to move, such as 901-1023 or 5,7-9")(
      "to", po::value<std::string>(), "group to move them to")(
      "shim", po::value<std::string>(), "host:port of slotferry-shim's data port")(
      "shim-admin", po::value<std::string>(), "host:port of its admin port")(
      "shim-admin-password", po::value<std::string>()->default_value(""),
      "password of the admin port")("shim-group", po::value<std::string>()->default_value("9"),
                                    "group number the shim gets in the dashboard")(
      "old-password", po::value<std::string>()->default_value(""), "password of the old servers")(
      "new-password", po::value<std::string>()->default_value(""), "password of the new servers")(
      "id", po::value<std::string>()->default_value(""), "name of the plan")(
      "max-pause-ms", po::value<std::string>()->default_value("500"), "bound of one unit's pause")(
      "hold-share", po::value<std::string>()->default_value("5"),
      "percent of the time writes may be held")("soak",
                                                po::value<std::string>()->default_value("5"),
                                                "seconds between hand-back and clean-up")(
      "ask", po::value<std::string>()->default_value(""),
      "phases to ask before, such as cutover,handback")("no-verify", "do not compare both sides")(
      "cleanup", "let run delete the old copy at the end")("out", po::value<std::string>(),
                                                           "plan file to write")(
      "overwrite", "replace an existing plan file")("help", "this text");
  return options;
}

po::options_description move_options(Command command, const std::string& name) {
  po::options_description options("slotferry " + name + " PLAN" +
                                  (command == Command::kCutover ? " [SLOTS]" : ""));
  options.add_options()("json", "one JSON object a line, for programs")("help", "this text");
  if (command == Command::kPreflight) return options;
  options.add_options()("dir", po::value<std::string>(),
                        "state folder of the move (default: PLAN.state)");
  if (command == Command::kStatus || command == Command::kWatch || command == Command::kJournal ||
      command == Command::kReport) {
    return options;
  }
  options.add_options()("yes", "answer every question with yes")(
      "take-lock", "take the run lock from a run that is dead for certain");
  if (command == Command::kRun) {
    options.add_options()("dry-run", "look only: preflight and the steps that would be taken")(
        "until", po::value<std::string>(), "stop after this phase");
  }
  return options;
}

Status usage(const std::string& command, const std::string& text) {
  return Status::invalid(
      cat(text, "; see slotferry ", command, command.empty() ? "" : " ", "--help"));
}

std::string text_of(const po::variables_map& values, const char* name) {
  return values.count(name) == 0 ? std::string() : values[name].as<std::string>();
}

Status required(const po::variables_map& values, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (values.count(name) == 0) return usage("plan", cat("--", name, " is missing"));
  }
  return Status::ok();
}

Status read_address(const po::variables_map& values, const char* name, HostPort* out) {
  const auto parsed = parse_host_port(text_of(values, name));
  if (!parsed)
    return usage("plan",
                 cat("--", name, " '", printable(text_of(values, name)), "' is no host:port"));
  *out = *parsed;
  return Status::ok();
}

template <class T>
Status read_number(const po::variables_map& values, const char* name, int64_t min, int64_t max,
                   T* out) {
  const auto parsed = parse_int64(text_of(values, name));
  if (!parsed || *parsed < min || *parsed > max) {
    return usage("plan", cat("--", name, " '", printable(text_of(values, name)),
                             "' must be a number from ", min, " to ", max));
  }
  *out = static_cast<T>(*parsed);
  return Status::ok();
}

Status read_request(const po::variables_map& values, CommandLine* line) {
  Status status =
      required(values, {"dashboard", "product", "slots", "to", "shim", "shim-admin", "out"});
  if (!status) return status;
  PlanRequest& request = line->request;
  const auto slots = SlotSet::parse(text_of(values, "slots"));
  if (!slots) return slots.status().with_context("--slots");
  request.slots = *slots;
  status = read_address(values, "dashboard", &request.dashboard);
  if (status) status = read_address(values, "shim", &request.shim.address);
  if (status) status = read_address(values, "shim-admin", &request.shim.admin);
  if (status) status = read_number(values, "to", 1, 9999, &request.target_group);
  if (status) status = read_number(values, "shim-group", 1, 9999, &request.shim_group);
  if (status) status = read_number(values, "max-pause-ms", 1, 60'000, &request.max_pause_ms);
  if (status) status = read_number(values, "hold-share", 1, 100, &request.hold_share_percent);
  if (status) status = read_number(values, "soak", 0, 604'800, &request.soak_seconds);
  if (!status) return status;
  request.product = text_of(values, "product");
  request.product_auth = text_of(values, "product-auth");
  request.shim.admin_password = text_of(values, "shim-admin-password");
  request.old_password = text_of(values, "old-password");
  request.new_password = text_of(values, "new-password");
  request.id = text_of(values, "id");
  request.verify = values.count("no-verify") == 0;
  request.cleanup = values.count("cleanup") != 0;
  const std::string ask = text_of(values, "ask");
  if (!ask.empty()) {
    for (const std::string_view word : split(ask, ',')) {
      const auto phase = parse_phase(word);
      if (!phase) return phase.status().with_context("--ask");
      request.ask.emplace_back(word);
    }
  }
  line->out_path = text_of(values, "out");
  line->overwrite = values.count("overwrite") != 0;
  return Status::ok();
}

Status read_move(const std::string& name, const po::variables_map& values, CommandLine* line) {
  const auto words = values.count("word") == 0 ? std::vector<std::string>()
                                               : values["word"].as<std::vector<std::string>>();
  if (words.empty()) return usage(name, "the plan file is missing");
  const size_t most = line->command == Command::kCutover ? 2 : 1;
  if (words.size() > most)
    return usage(name, cat("'", printable(words[most]), "' is one word too many"));
  line->plan_path = words[0];
  if (words.size() == 2) {
    const auto slots = SlotSet::parse(words[1]);
    if (!slots) return slots.status();
    line->slots = *slots;
  }
  line->state_dir = text_of(values, "dir");
  if (line->state_dir.empty()) line->state_dir = line->plan_path + ".state";
  line->json = values.count("json") != 0;
  line->yes = values.count("yes") != 0;
  line->dry_run = values.count("dry-run") != 0;
  line->take_lock = values.count("take-lock") != 0;
  if (values.count("until") == 0) return Status::ok();
  const auto phase = parse_phase(text_of(values, "until"));
  if (!phase) return phase.status().with_context("--until");
  line->until = *phase;
  return Status::ok();
}

Result<po::variables_map> parse_options(const std::string& name,
                                        const po::options_description& visible, bool takes_plan,
                                        const std::vector<std::string>& arguments) {
  po::options_description all;
  all.add(visible);
  po::positional_options_description positions;
  if (takes_plan) {
    all.add_options()("word", po::value<std::vector<std::string>>());
    positions.add("word", -1);
  }
  try {
    po::variables_map values;
    po::command_line_parser parser(arguments);
    // No guessing: "--shim" must not be taken for the beginning of another flag.
    parser.options(all).positional(positions).style(po::command_line_style::default_style &
                                                    ~po::command_line_style::allow_guessing);
    po::store(parser.run(), values);
    return values;
  } catch (const po::too_many_positional_options_error&) {
    return usage(name, "this command takes flags only");
  } catch (const std::exception& error) {
    return usage(name, error.what());
  }
}

}  // namespace

Result<CommandLine> parse_command_line(const std::vector<std::string>& arguments) {
  CommandLine line;
  line.help = kSummary;
  if (arguments.empty()) return usage("", "no command given");
  const std::string& name = arguments[0];
  if (name == "--help" || name == "help" || name == "-h") return line;
  if (name == "--version") {
    line.command = Command::kVersion;
    return line;
  }
  const auto row = command_rows().find(name);
  if (row == command_rows().end()) return usage("", cat("'", printable(name), "' is no command"));
  line.command = row->second.command;
  const auto options =
      line.command == Command::kPlan ? plan_options() : move_options(line.command, name);
  const auto values = parse_options(name, options, row->second.takes_plan,
                                    {arguments.begin() + 1, arguments.end()});
  if (!values) return values.status();
  if (values->count("help") != 0) {
    std::ostringstream text;
    text << options;
    line.command = Command::kHelp;
    line.help = text.str();
    return line;
  }
  const Status status = line.command == Command::kPlan ? read_request(*values, &line)
                                                       : read_move(name, *values, &line);
  if (!status) return status;
  return line;
}

}  // namespace sf

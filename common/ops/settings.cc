#include "common/ops/settings.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "common/base/check.h"
#include "common/base/strings.h"
#include "common/ops/config_file.h"
#include "common/ops/process.h"

namespace sf {
namespace {

using Kind = SettingSpec::Kind;

// "64mb", "1G", "4096": 1024-based, as Pika reads them.
std::optional<int64_t> parse_bytes(std::string_view text) {
  std::string word = to_lower(text);
  if (word.size() > 1 && word.back() == 'b') word.pop_back();
  int shift = 0;
  switch (word.empty() ? '0' : word.back()) {
    case 'k':
      shift = 10;
      break;
    case 'm':
      shift = 20;
      break;
    case 'g':
      shift = 30;
      break;
    case 't':
      shift = 40;
      break;
    default:
      break;
  }
  if (shift > 0) word.pop_back();
  const auto value = parse_int64(word);
  if (!value || *value > (INT64_MAX >> shift) || *value < 0) return std::nullopt;
  return *value << shift;
}

std::optional<bool> parse_flag(std::string_view text) {
  const std::string word = to_lower(text);
  if (word == "yes" || word == "true" || word == "on" || word == "1") return true;
  if (word == "no" || word == "false" || word == "off" || word == "0") return false;
  return std::nullopt;
}

std::optional<int64_t> number_of(const SettingSpec& spec, std::string_view value) {
  const auto number = spec.kind == Kind::kBytes ? parse_bytes(value) : parse_int64(value);
  if (!number || *number < spec.min || *number > spec.max) return std::nullopt;
  return number;
}

std::string range_text(const SettingSpec& spec) {
  if (spec.max == INT64_MAX) return cat("of at least ", spec.min);
  return cat("from ", spec.min, " to ", spec.max);
}

Status check_value(const SettingSpec& spec, std::string_view value) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20; };
  if (std::any_of(value.begin(), value.end(), control)) {
    return Status::invalid(cat(spec.name, " must not contain control characters"));
  }
  const std::string shown = cat(spec.name, " must be ");
  switch (spec.kind) {
    case Kind::kText:
      return Status::ok();
    case Kind::kFlag:
      if (parse_flag(value)) return Status::ok();
      return Status::invalid(cat(shown, "yes or no, not '", printable(value), "'"));
    case Kind::kInteger:
      if (number_of(spec, value)) return Status::ok();
      return Status::invalid(
          cat(shown, "a whole number ", range_text(spec), ", not '", printable(value), "'"));
    case Kind::kBytes:
      if (number_of(spec, value)) return Status::ok();
      return Status::invalid(cat(shown, "a size like 64mb, in bytes ", range_text(spec), ", not '",
                                 printable(value), "'"));
  }
  return Status::ok();
}

const char* value_word(Kind kind) {
  switch (kind) {
    case Kind::kText:
      return " TEXT";
    case Kind::kInteger:
      return " NUMBER";
    case Kind::kBytes:
      return " SIZE";
    case Kind::kFlag:
      return "";
  }
  return "";
}

void print_help(const std::vector<SettingSpec>& specs, std::string_view program,
                std::string_view summary) {
  std::string out =
      cat(program, ": ", summary, "\n\nUsage: ", program, " [--config FILE] [--name value]...\n\n");
  const auto row = [&out](std::string left, std::string_view help, std::string_view preset) {
    constexpr size_t kColumn = 34;
    left.resize(std::max(kColumn, left.size() + 2), ' ');
    out += cat(left, help);
    if (!preset.empty()) out += cat(" (", preset, ")");
    out += '\n';
  };
  row("  --config FILE", "settings from a file of lines 'name : value'; flags override it", "");
  for (const SettingSpec& spec : specs) {
    row(cat("  --", spec.name, value_word(spec.kind)), spec.help, spec.default_value);
  }
  row("  --help", "this text", "");
  row("  --version", "the program's version", "");
  std::fputs(out.c_str(), stdout);
}

// One argument list read flag by flag.
struct Arguments {
  int argc;
  char** argv;
  int at = 1;

  // The next flag's name, and its value if it was written as --name=value.
  struct Flag {
    std::string name;
    std::optional<std::string> value;
  };
  Result<Flag> next() {
    const std::string_view word = argv[at++];
    if (word == "-h") return Flag{"help", {}};
    if (word == "-v") return Flag{"version", {}};
    if (word == "-c") return Flag{"config", {}};
    if (!word.starts_with("--") || word.size() == 2) {
      return Status::invalid(
          cat("'", printable(word), "' is not a flag: flags are --name value; see --help"));
    }
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) return Flag{std::string(word.substr(2)), {}};
    return Flag{std::string(word.substr(2, equals - 2)), std::string(word.substr(equals + 1))};
  }
  bool done() const { return at >= argc; }
};

}  // namespace

Settings::Settings(std::vector<SettingSpec> specs) : specs_(std::move(specs)) {
  for (const SettingSpec& spec : specs_) values_[spec.name] = spec.default_value;
}

Status Settings::parse(int argc, char** argv, std::string_view program, std::string_view summary) {
  std::vector<std::pair<std::string, std::string>> flags;
  Arguments arguments{argc, argv};
  while (!arguments.done()) {
    auto flag = arguments.next();
    if (!flag) return flag.status();
    if (flag->name == "help" || flag->name == "version") {
      done_ = true;
      if (flag->name == "help") {
        print_help(specs_, program, summary);
      } else {
        std::puts(version_text(program).c_str());
      }
      return Status::ok();
    }
    const SettingSpec* spec = find(flag->name);
    if (spec == nullptr && flag->name != "config") {
      return Status::invalid(cat("unknown flag --", printable(flag->name), "; see --help"));
    }
    const bool may_stand_alone = spec != nullptr && spec->kind == Kind::kFlag;
    if (!flag->value && may_stand_alone) {
      // `--init yes` and `--init` are both understood.
      const bool has_word = !arguments.done() && parse_flag(argv[arguments.at]).has_value();
      flag->value = has_word ? argv[arguments.at++] : "yes";
    } else if (!flag->value) {
      if (arguments.done()) return Status::invalid(cat("--", flag->name, " needs a value"));
      flag->value = argv[arguments.at++];
    }
    if (flag->name == "config") {
      config_path_ = *flag->value;
    } else {
      flags.emplace_back(flag->name, *flag->value);
    }
  }
  if (!config_path_.empty()) {
    const Status loaded = load(config_path_);
    if (!loaded) return loaded;
  }
  for (const auto& [name, value] : flags) {
    const Status fits = set(name, value);
    if (!fits) return Status(fits.code(), cat("--", fits.text()));
  }
  return Status::ok();
}

Status Settings::load(const std::string& path) {
  auto file = ConfigFile::load(path);
  if (!file) return file.status();
  for (const std::string& key : file->keys()) {
    const std::string where = cat(path, " line ", file->line_of(key));
    if (find(key) == nullptr) {
      return Status::invalid(
          cat(where, ": unknown setting '", printable(key), "'; --help lists the known ones"));
    }
    const Status fits = set(key, *file->get(key));
    if (!fits) return fits.with_context(where);
  }
  return Status::ok();
}

const SettingSpec* Settings::find(std::string_view name) const {
  const auto it = std::find_if(specs_.begin(), specs_.end(),
                               [name](const SettingSpec& spec) { return spec.name == name; });
  return it == specs_.end() ? nullptr : &*it;
}

const std::string& Settings::text(std::string_view name) const {
  const auto it = values_.find(name);
  SF_CHECK(it != values_.end());
  return it->second;
}

int64_t Settings::integer(std::string_view name) const {
  const SettingSpec* spec = find(name);
  SF_CHECK(spec != nullptr);
  const auto number = number_of(*spec, text(name));
  SF_CHECK(number.has_value());
  return *number;
}

bool Settings::flag(std::string_view name) const {
  return parse_flag(text(name)).value_or(false);
}

bool Settings::given(std::string_view name) const {
  const auto it = given_.find(name);
  return it != given_.end() && it->second;
}

Status Settings::set(std::string_view name, std::string_view value) {
  const SettingSpec* spec = find(name);
  if (spec == nullptr) return Status::not_found(cat("no setting is called ", printable(name)));
  const Status fits = check_value(*spec, value);
  if (!fits) return fits;
  std::string kept(value);
  if (spec->kind == Kind::kFlag) kept = *parse_flag(value) ? "yes" : "no";
  values_.insert_or_assign(spec->name, std::move(kept));
  given_.insert_or_assign(spec->name, true);
  return Status::ok();
}

}  // namespace sf

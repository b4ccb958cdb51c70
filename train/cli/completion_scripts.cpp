#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <string>
#include <string_view>

#include "train/cli/completion.h"
#include "train/platform/program_name.h"

/// The scripts hold no command, option or key: they hand the words of the command line to
/// `tapestry completion SHELL -- WORDS`, the program that is being completed, and offer what it
/// prints.
namespace tapestry {
namespace {

// Bash splits words at the `=` of COMP_WORDBREAKS; they are joined again, and what precedes the
// last `=` is left out of the replies.
constexpr std::string_view bash_script =
    R"bash(# Completion of tapestry for Bash: source <(tapestry completion bash)

_tapestry_paths() {
  local path=$1 start=$2 typed=$3 extension name names
  shift 3
  compopt -o filenames 2>/dev/null
  mapfile -t names < <(
    if (($# == 0)); then
      compgen -f -- "$path"
    else
      compgen -d -- "$path"
      for extension; do compgen -f -X "!*.$extension" -- "$path"; done
    fi
  )
  for name in "${names[@]}"; do
    name=$start$name
    COMPREPLY+=("${name#"$typed"}")
  done
}

_tapestry() {
  local program=${COMP_WORDS[0]/#\~/$HOME} rest=${COMP_LINE:0:COMP_POINT} words=() i
  for ((i = 0; i < COMP_CWORD; ++i)); do
    if [[ $i -eq 0 || $rest == [[:space:]]* ]]; then
      words+=("")
      rest=${rest#"${rest%%[![:space:]]*}"}
    fi
    words[-1]+=${COMP_WORDS[i]}
    rest=${rest#"${COMP_WORDS[i]}"}
  done
  if [[ $rest == [[:space:]]* ]]; then
    words+=("")
    rest=${rest#"${rest%%[![:space:]]*}"}
  fi
  words[-1]+=$rest

  local current=${words[-1]} typed="" word
  [[ $COMP_WORDBREAKS != *=* || $current != *=* ]] || typed=${current%"${current##*=}"}
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    case $word in
      :paths*) _tapestry_paths "$current" "" "$typed" ${word#:paths} ;;
      :value-paths*)
        _tapestry_paths "${current#*=}" "${current%%=*}=" "$typed" ${word#:value-paths} ;;
      "$current"*)
        COMPREPLY+=("${word#"$typed"}")
        [[ $word != *= ]] || compopt -o nospace 2>/dev/null ;;
    esac
  done < <("$program" completion bash -- "${words[@]:1}" 2>/dev/null)
}

complete -F _tapestry tapestry
)bash";

constexpr std::string_view zsh_script = R"zsh(#compdef tapestry
# Completion of tapestry for Zsh: source <(tapestry completion zsh), after compinit

_tapestry() {
  local -a described unfinished extensions program
  local line word paths=
  program=(${~words[1]})
  while IFS= read -r line; do
    word=${line%%$'\t'*}
    case $word in
      :paths*|:value-paths*) paths=${word%% *}; extensions=(${=word#* }) ;;
      *=) unfinished+=("${word//:/\\:}:${line#*$'\t'}") ;;
      ?*) described+=("${word//:/\\:}:${line#*$'\t'}") ;;
    esac
  done < <($program[1] completion zsh -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)

  local result=1
  (( $#described )) && _describe -t candidates tapestry described && result=0
  (( $#unfinished )) && _describe -t keys 'config key' unfinished -S '' && result=0
  if [[ -n $paths ]]; then
    [[ $paths == :value-paths ]] && compset -P 1 '*='
    if (( $#extensions )); then
      _files -g "*.(${(j:|:)extensions})(-.)" && result=0
    else
      _files && result=0
    fi
  fi
  return result
}

if [[ $funcstack[1] == _tapestry ]]; then
  _tapestry
else
  compdef _tapestry tapestry
fi
)zsh";

constexpr std::string_view fish_script =
    R"fish(# Completion of tapestry for fish: tapestry completion fish | source

# Prints folders and files with one of the extensions, or all files.
function __tapestry_paths --argument-names start path
    set -l names (complete -C "__fish_command_without_completions $path" | string replace -r '\t.*' '')
    if set -q argv[3]
        set names (string match -r -- '.*(?:/|\.(?:'(string join '|' -- $argv[3..])'))$' $names)
    end
    for name in $names
        echo -- $start$name
    end
end

function __tapestry_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    for line in ($program completion fish -- $words[2..] "$current" 2>/dev/null)
        switch $line
            case ':paths*'
                __tapestry_paths '' "$current" (string split -n ' ' -- $line)[2..]
            case ':value-paths*'
                __tapestry_paths (string replace -r '=.*' '=' -- $current) \
                    (string replace -r '^[^=]*=' '' -- $current) (string split -n ' ' -- $line)[2..]
            case '*'
                echo -- $line
        end
    end
end

complete -c tapestry -f -a '(__tapestry_complete)'
)fish";

/// The script with the name of the program in place of `tapestry`; in names of functions, other
/// characters than letters and digits become `_`.
std::string for_this_program(std::string_view script) {
  constexpr std::string_view placeholder = "tapestry";
  const std::string& name = program_name();
  std::string identifier = name;
  std::ranges::replace_if(
      identifier, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  std::string text;
  while (true) {
    const std::size_t at = script.find(placeholder);
    text += script.substr(0, at);
    if (at == script.npos) return text;
    text += text.ends_with('_') ? identifier : name;
    script.remove_prefix(at + placeholder.size());
  }
}

}  // namespace

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return for_this_program(bash_script);
  if (shell == "zsh") return for_this_program(zsh_script);
  if (shell == "fish") return for_this_program(fish_script);
  throw std::logic_error("no completion script for " + std::string(shell));
}

}  // namespace tapestry

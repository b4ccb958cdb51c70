# Doxygen's input filter for Markdown pages. Usage: awk -v headers=FOLDER -f page_filter.awk PAGE
#
#   # From ...      the title of the guide gets a label to refer to
#   [text](path)    a relative link, to a file that is not a page of the reference, becomes its text
#   \ref Class      becomes \ref tapestry::Class
#   `matmul(x, y)`  the names of functions and classes become links; not in the first column of a
#                   table, which has code of PyTorch

BEGIN {
  command = "find '" headers "/tapestry' -name '*.h' -exec cat {} +"
  while ((command | getline line) > 0) learn(line)
}

FNR == 1 && /^# / && FILENAME ~ /from_pytorch\.md$/ { $0 = $0 " {#from_pytorch}" }

/^```/ { in_block = !in_block; print; next }
in_block { print; next }

{ print with_links_of_code(with_references(without_relative_links($0))) }

# Notes what a line of a header declares in the namespace tapestry.
function learn(line) {
  if (line ~ /^namespace/) in_tapestry = line ~ /^namespace tapestry \{/
  if (!in_tapestry || line ~ /^(class|struct) [A-Za-z]*;/) return
  if (match(line, /^(class|struct|enum class) [A-Z][A-Za-z]*/)) {
    sub(/^(enum )?(class|struct) /, "", line)
    match(line, /^[A-Za-z]*/)
    is_class[substr(line, 1, RLENGTH)] = 1
  } else if (line ~ /^[A-Za-z]/ && match(line, / [a-z_0-9]+\(/)) {
    is_function[substr(line, RSTART + 1, RLENGTH - 2)] = 1
  }
}

function without_relative_links(rest,    link, text, target, result) {
  while (match(rest, /\[[^]`]*\]\([^)]*\)/)) {
    link = substr(rest, RSTART, RLENGTH)
    text = substr(link, 2, index(link, "](") - 2)
    target = substr(link, index(link, "](") + 2)
    result = result substr(rest, 1, RSTART - 1) (target ~ /^https?:/ ? link : text)
    rest = substr(rest, RSTART + RLENGTH)
  }
  return result rest
}

function with_references(text,    name) {
  while (match(text, /\\ref [A-Z][A-Za-z]*/)) {
    name = substr(text, RSTART + 5, RLENGTH - 5)
    text = substr(text, 1, RSTART) "ref tapestry::" name " \"" name "\"" \
           substr(text, RSTART + RLENGTH)
  }
  return text
}

function with_links_of_code(text,    parts, count, k, result, of_pytorch) {
  count = split(text, parts, "`")
  of_pytorch = text ~ /^\| / && FILENAME ~ /from_pytorch\.md$/
  for (k = 1; k <= count; k++) {
    if (k % 2 == 1) {
      if (parts[k] ~ / \| /) of_pytorch = 0
      result = result parts[k]
    } else {
      result = result "<code>" (of_pytorch ? unlinked(parts[k]) : linked(parts[k])) "</code>"
    }
  }
  return result
}

function escaped(text) {
  gsub(/[\\<>#@&]/, "\\\\&", text)
  gsub(/\*/, "\\*", text)
  gsub(/--/, "\\--", text)
  return text
}

function unlinked(code) {
  code = escaped(code)
  gsub(/[A-Za-z_][A-Za-z_.]*\(/, "%&", code)
  return code
}

function linked(code,    name, shown, before, is_link, result) {
  while (match(code, /[A-Za-z_][A-Za-z_0-9]*/)) {
    name = substr(code, RSTART, RLENGTH)
    before = substr(code, 1, RSTART - 1)
    code = substr(code, RSTART + RLENGTH)
    shown = name
    if (name in is_class && match(code, /^::[A-Za-z_0-9]*/)) {  # a member is part of the link
      shown = name substr(code, 1, RLENGTH)
      code = substr(code, RLENGTH + 1)
    }
    is_link = name in is_class || name in is_function && code ~ /^\(/
    if (before ~ /([.":]|->)$/) is_link = 0
    result = result escaped(before) (is_link ? "\\ref tapestry::" name " \"" shown "\"" : shown)
  }
  return result escaped(code)
}

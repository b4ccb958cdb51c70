# Doxygen's input filter for public headers: turns their comments into Doxygen's commands and keeps
# every line at its number. Usage: awk -f header_filter.awk HEADER
#
#   name     text         rows of a comment whose second columns are aligned. For a function, rows
#   returns  text         of parameters become \param, "returns" becomes \return, and others become
#   throws   text         paragraphs with a heading; for everything else rows become a table.
#
# Text is escaped, except in `code` and in code blocks (indented by four spaces or more). A comment
# that is followed by a blank line, #include or namespace belongs to the file.
#
# Each header becomes a group, such as "Losses" in the group autograd_ops of its folder; groups.dox
# defines the groups of folders.
#
# These declarations need no comment of their own:
#   - overloads that follow the documented function directly;
#   - operators of one line that follow a documented function directly: what they return;
#   - defaulted comparisons, and deleted copies and constructors;
#   - constructors of a class whose comment has a row "parameters", and call operators of one that
#     has "call": these rows.
# An enumerator without a comment causes a warning, as Doxygen itself does not warn of it.

{ line[NR] = $0 }

END {
  include = FILENAME
  if (!sub(/.*\/include\//, "", include)) include = FILENAME
  folder = include
  sub(/^tapestry\//, "", folder)
  sub(/\/?[^\/]*$/, "", folder)
  gsub(/\//, "_", folder)
  n = NR
  for (i = 1; i <= n; i++) {
    if (is_comment(line[i])) {
      first = i
      while (i < n && is_comment(line[i + 1])) i++
      convert(first, i)
    } else {
      print declaration(i)
    }
  }
}

function is_comment(text) { return text ~ /^ *\/\/\/( |$)/ }

# Whether a comment starts at line k that belongs to the file.
function is_comment_of_file(k) {
  if (k > n || !is_comment(line[k])) return 0
  while (k <= n && is_comment(line[k])) k++
  return is_blank(line[k]) || line[k] ~ /^(#|namespace)/
}

function is_blank(text) { return text ~ /^ *$/ }

# Starts the group of this header. The first time it also defines it.
function start_of_group(    title, id) {
  title = include
  sub(/.*\//, "", title)
  sub(/\.h$/, "", title)
  id = folder "_" title
  gsub(/_/, " ", title)
  title = toupper(substr(title, 1, 1)) substr(title, 2)
  if (group_is_defined) return "/** \\addtogroup " id "\n * @{ */"
  group_is_defined = 1
  return "/** \\addtogroup " id " " title " \\ingroup{" folder "} <code>\\#include \\<" include \
         "\\></code>\n * @{ */"
}

# ---- Comments

# Prints the comment from line `first` to line `last`, converted.
function convert(first, last,    k, indent, text, next_line, code, column, after_blank) {
  next_line = line[last + 1]
  if (next_line ~ /^(class|struct|template)/) forget_class()
  signature = signature_after(last + 1)
  is_function = signature ~ /\(/ && signature !~ /^ *(class|struct|enum|using) /
  in_table = 0
  row_column = 0
  after_blank = 1
  for (k = first; k <= last; k++) {
    indent = substr(line[k], 1, match(line[k], /[^ ]/) - 1)
    text = substr(line[k], length(indent) + 4)
    sub(/^ /, "", text)
    column = match(text, /[^ ]/) - 1
    if (column < 0) {
      row_column = 0
      code = 0
      text = end_of_table()
    } else if (row_column && column > row_column) {
      text = escaped(text)
      if (last_row in class_row) class_row[last_row] = class_row[last_row] text
    } else if (column >= 4 && (after_blank || code)) {
      code = 1
    } else if (is_row(text)) {
      text = row(text, column)
    } else {
      row_column = 0
      text = end_of_table() (text ~ /^\[[0-9]\] / && !after_blank ? "<br>" : "") escaped(text)
    }
    after_blank = column < 0
    if (k == last) text = text end_of_table()
    print indent "///" (text == "" ? "" : " " text)
  }
}

# "name  text", as "a, b     text", "returns  text" or "both lines blank   text"
function is_row(text) { return text ~ /^ *[A-Za-z_][A-Za-z_0-9]*(,? [A-Za-z_0-9]+)*  +[^ ]/ }

function row(text, column,    name, key) {
  row_column = column
  sub(/^ */, "", text)
  match(text, /  +/)
  name = substr(text, 1, RSTART - 1)
  text = escaped(substr(text, RSTART + RLENGTH))
  if (!is_function && is_template_parameter(name)) return "\\tparam " name " " text
  last_row = name
  if (!is_function) class_row[name] = text
  if (!is_function) {
    key = in_table ? "</td></tr><tr>" : "<table class=\"rows\"><tr>"
    in_table = 1
    return key "<th>" escaped(name) "</th><td>" text
  }
  if (name == "returns") return "\\return " text
  if (name == "throws") return "\\heading{Throws} " text
  if (name ~ / / && !are_parameters(name)) return "\\heading{" escaped(name) "} " text
  gsub(/, /, ",", name)
  return "\\param " name " " text
}

# What the rows of the comment of a class say of a constructor or call operator.
function from_rows(name,    comment) {
  if (name == class_name && ("parameters" in class_row))
    comment = "Creates the parameters: " class_row["parameters"] "."
  if (name == "operator()" && ("call" in class_row)) {
    comment = class_row["call"] "."
    if ("throws" in class_row) comment = comment " \\heading{Throws} " class_row["throws"] "."
  }
  gsub(/ \[[0-9]\]/, "", comment)
  return comment
}

function forget_class(    key) {
  for (key in class_row) delete class_row[key]
}

function end_of_table() {
  if (!in_table) return ""
  in_table = 0
  return "</td></tr></table>"
}

function are_parameters(names,    k, count, part) {
  count = split(names, part, ", ")
  for (k = 1; k <= count; k++)
    if (signature !~ ("[ &*]" part[k] "( *[,)=[]|$)")) return 0
  return 1
}

function is_template_parameter(name) {
  return signature ~ /^ *template </ && signature ~ ("(class|typename) " name "[,>]")
}

# The text of a comment outside of `code` and "quotes", with what Doxygen would interpret made
# literal.
function escaped(text,    parts, count, k, result) {
  count = split(text, parts, "`")
  for (k = 1; k <= count; k++) {
    if (k % 2 == 1 || k == count) parts[k] = escaped_prose(parts[k])
    result = result (k == 1 ? "" : "`") parts[k]
  }
  if (result ~ /^ *[-+] / && text !~ /^  /) sub(/[-+]/, "\\\\&", result)
  return result
}

function escaped_prose(text,    parts, count, k, result) {
  count = split(text, parts, "\"")
  for (k = 1; k <= count; k++) {
    if (k % 2 == 1 || k == count) {
      gsub(/\\/, "\\\\\\\\", parts[k])
      gsub(/[<>#@%&]/, "\\\\&", parts[k])
      gsub(/--/, "\\--", parts[k])
      gsub(/\*/, "\\*", parts[k])
    }
    result = result (k == 1 ? "" : "\"") parts[k]
  }
  return result
}

# ---- Declarations

# The declaration that starts at a line, up to its body or end.
function signature_after(k,    text, depth, result) {
  for (; k <= n && !is_blank(line[k]); k++) {
    text = line[k]
    sub(/ *\/\/.*/, "", text)
    result = result text " "
    depth += gsub(/\(/, "(", text) - gsub(/\)/, ")", text)
    if (depth == 0 && result !~ /^ *template <[^(]*> *$/ && text ~ /[;{]/) break
  }
  return result
}

# The name of the function that a line starts to declare; empty if it does not.
function function_name(text) {
  if (text ~ /^ *(return|if|for|while|using|class|struct|enum|template|#|\/\/|:|,|})/) return ""
  if (match(text, /operator[^A-Za-z_ ]+\(/) || match(text, /operator\(\)\(/))
    return substr(text, RSTART, RLENGTH - 1)
  if (text !~ /^ *[A-Za-z_][A-Za-z_0-9:<>,*& ]* [*&]?[A-Za-z_][A-Za-z_0-9]*\(/ &&
      text !~ /^ *(explicit )?[A-Z][A-Za-z_0-9]*\(/) return ""
  match(text, /[A-Za-z_][A-Za-z_0-9]*\(/)
  return substr(text, RSTART, RLENGTH - 1)
}

# Line k, with a comment if it gets one from what it declares or from what is before it.
function declaration(k,    text, name, comment, body, head) {
  text = line[k]
  if (is_blank(text) && is_comment_of_file(k + 1)) return "/// \\file"
  if (text ~ /^namespace tapestry(::kernels)? \{/)
    return text " " start_of_group()
  if (text ~ /^}  \/\/ namespace tapestry(::kernels)?$/) return "/** @} */ " text
  if (text ~ /^ *enum class/) in_enum = 1
  if (in_enum && text ~ /^ *[a-z_0-9]+( = [0-9]+)?,?$/ && !is_comment(line[k - 1]) ||
      text ~ /^ *enum class [^{]*\{ *[a-z]/)
    text = text "  ///< \\enumerator_without_comment"
  if (in_enum && text ~ /}/) in_enum = 0
  if (text ~ /enumerator_without_comment/) return text
  if ((body = index(text, "///<")) > 0)
    return substr(text, 1, body + 3) escaped(substr(text, body + 4))
  if (match(text, /^(class|struct) [A-Za-z_]+/)) class_name = substr(text, 7, RLENGTH - 6)
  sub(/^ /, "", class_name)
  head = is_template_head(text) ? 1 : 0
  name = function_name(line[k + head])
  if (name == "" || is_template_head(line[k - 1])) return text
  if (!is_comment(line[k - 1])) comment = derived_comment(k + head, name)
  if (comment != "" || is_comment(line[k - 1])) {
    previous = name
    last_declared = last_line_of(k + head)
  }
  if (comment == "") return text
  match(text, /[^ ]/)
  return substr(text, 1, RSTART - 1) "/** " comment " */ " substr(text, RSTART)
}

# A comment for the function that starts at line k without one, or nothing.
function derived_comment(k, name,    text) {
  text = line[k]
  if (text ~ /= default;/ && name ~ /operator(==|<=>)/) return "Compares member by member."
  if (text ~ /= delete;/)
    return name ~ /operator/ ? "Cannot be assigned." : "Cannot be made this way."
  if (name == previous && k == last_declared + 1) return "\\overload"
  if (name ~ /^operator[^(]/ && k == last_declared + 1 && text ~ /\{ return .*; \}$/) {
    last_declared = k
    sub(/.*\{ return /, "", text)
    sub(/; \}$/, "", text)
    return "Returns <code>" escaped(text) "</code>."
  }
  return from_rows(name)
}

function is_template_head(text) { return text ~ /^ *template <.*> *$/ }

# The last line of the function that starts at line k.
function last_line_of(k) {
  while (k < n && line[k] !~ /(;|\})( *\/\/.*)?$/) k++
  if (line[k] ~ /^ +return/) k++
  return k
}

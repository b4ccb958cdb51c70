# Doxygen's input filter for Markdown pages. Usage: awk -f page_filter.awk PAGE
#
# The title of the guide gets a label to refer to. Relative links, to files that are not pages of the
# reference, become their text, and \ref Class becomes
# \ref tapestry::Class.

FNR == 1 && /^# / && FILENAME ~ /from_pytorch\.md$/ { $0 = $0 " {#from_pytorch}" }

{
  rest = $0
  result = ""
  while (match(rest, /\[[^]`]*\]\([^)]*\)/)) {
    result = result substr(rest, 1, RSTART - 1) converted(substr(rest, RSTART, RLENGTH))
    rest = substr(rest, RSTART + RLENGTH)
  }
  result = result rest
  while (match(result, /\\ref [A-Z][A-Za-z]*/)) {
    name = substr(result, RSTART + 5, RLENGTH - 5)
    result = substr(result, 1, RSTART) "ref tapestry::" name " \"" name "\"" \
             substr(result, RSTART + RLENGTH)
  }
  print result
}

function converted(link,    text, target) {
  text = substr(link, 2, index(link, "](") - 2)
  target = substr(link, index(link, "](") + 2)
  return target ~ /^https?:/ ? link : text
}

# Run by tapestry_kernels(): links the object files of each instruction set of KERNELS, which define
# the same symbols, to FOLDER/<set>.o, where they are local, and makes FOLDER/dispatch.o, which
# defines them as jumps through a table in memory:
#
#     tapestry_kernel_count    the number of functions
#     tapestry_kernel_slots    the addresses that are jumped to; those of the first set at first
#     tapestry_kernel_tables   for each set a pointer to the addresses of its functions
#
# autograd/instruction_set.cpp fills the slots before main().
cmake_minimum_required(VERSION 3.25)
include(${FOLDER}/objects.cmake)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Functions that have to be found from outside: all that are not inline, and template instances of
# namespace tapestry. Inline functions that are defined in every set may be among them. Variables
# of inline functions and inline variables stay common to all sets and to the rest of the program.
function(read_symbols file)
  execute_process(COMMAND ${READELF} --symbols --wide ${file}
    OUTPUT_VARIABLE table COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[A-Z]+ +(GLOBAL|WEAK|UNIQUE) +[A-Z]+ +([0-9]+|COM) [^\n]+" symbols "${table}")
  set(functions "")
  set(weak "")
  set(variables "")
  foreach(symbol ${symbols})
    string(REGEX MATCH "^([A-Z]+) +([A-Z]+) +[A-Z]+ +[0-9COM]+ (.+)$" parts "${symbol}")
    set(type ${CMAKE_MATCH_1})
    set(binding ${CMAKE_MATCH_2})
    set(name ${CMAKE_MATCH_3})
    if(type STREQUAL "FUNC")
      if(binding STREQUAL "GLOBAL" OR name MATCHES "^_ZNK?8tapestry")
        list(APPEND functions ${name})
        if(NOT binding STREQUAL "GLOBAL")
          list(APPEND weak ${name})
        endif()
      endif()
    elseif(NOT binding STREQUAL "GLOBAL")
      if(NOT name MATCHES "^_ZT[VTIS]")
        list(APPEND variables ${name})
      endif()
    else()
      message(FATAL_ERROR "${file} defines the variable ${name}; define it in a source that is "
        "compiled once, see autograd/CMakeLists.txt")
    endif()
  endforeach()
  set(functions "${functions}" PARENT_SCOPE)
  set(weak "${weak}" PARENT_SCOPE)
  set(variables "${variables}" PARENT_SCOPE)
endfunction()

set(common "")
foreach(set ${KERNELS})
  run(${LINKER} -r --force-group-allocation -o ${FOLDER}/${set}.all.o ${OBJECTS_${set}})
  read_symbols(${FOLDER}/${set}.all.o)
  set(variables_${set} "${variables}")
  if(set STREQUAL "baseline" OR common STREQUAL "")
    set(common "${functions}")
    set(weak_ones "${weak}")
  else()
    set(kept "")
    foreach(name ${common})
      if(name IN_LIST functions)
        list(APPEND kept ${name})
      endif()
    endforeach()
    set(common "${kept}")
  endif()
endforeach()

# The addresses of each set.
list(JOIN common "\n  .quad " addresses)
foreach(set ${KERNELS})
  set(text ".section .data.rel.ro.tapestry,\"aw\"\n.balign 8\n")
  string(APPEND text ".globl tapestry_kernels_${set}\n.hidden tapestry_kernels_${set}\n")
  string(APPEND text "tapestry_kernels_${set}:\n  .quad ${addresses}\n")
  set(kept ${variables_${set}} tapestry_kernels_${set})
  list(GET KERNELS 0 first)
  if(set STREQUAL first)
    string(APPEND text ".data\n.balign 8\n.globl tapestry_kernel_slots\n.hidden tapestry_kernel_slots\n")
    string(APPEND text "tapestry_kernel_slots:\n  .quad ${addresses}\n")
    list(APPEND kept tapestry_kernel_slots)
  endif()
  string(APPEND text ".section .note.GNU-stack,\"\",@progbits\n")
  file(WRITE ${FOLDER}/${set}.table.s "${text}")
  run(${COMPILER} -c ${FOLDER}/${set}.table.s -o ${FOLDER}/${set}.table.o)
  run(${LINKER} -r -o ${FOLDER}/${set}.o ${FOLDER}/${set}.all.o ${FOLDER}/${set}.table.o)
  list(JOIN kept "\n" names)
  file(WRITE ${FOLDER}/${set}.kept "${names}\n")
  list(JOIN variables_${set} "\n" names)
  file(WRITE ${FOLDER}/${set}.weak "${names}\n")
  run(${OBJCOPY} --keep-global-symbols=${FOLDER}/${set}.kept --weaken-symbols=${FOLDER}/${set}.weak
    ${FOLDER}/${set}.o)
endforeach()

# The jumps.
set(text ".text\n")
set(slot 0)
foreach(name ${common})
  set(binding .globl)
  if(name IN_LIST weak_ones)
    set(binding .weak)
  endif()
  string(APPEND text ".balign 8\n${binding} ${name}\n.hidden ${name}\n.type ${name}, @function\n"
    "${name}:\n  jmp *tapestry_kernel_slots+${slot}(%rip)\n.size ${name}, .-${name}\n")
  math(EXPR slot "${slot} + 8")
endforeach()
list(LENGTH common count)
string(APPEND text ".section .data.rel.ro.tapestry,\"aw\"\n.balign 8\n"
  ".globl tapestry_kernel_count\n.hidden tapestry_kernel_count\ntapestry_kernel_count:\n  .quad ${count}\n"
  ".globl tapestry_kernel_tables\n.hidden tapestry_kernel_tables\ntapestry_kernel_tables:\n")
foreach(set ${KERNELS})
  string(APPEND text "  .quad tapestry_kernels_${set}\n")
endforeach()
string(APPEND text ".section .init_array.00101,\"aw\"\n.balign 8\n  .quad tapestry_choose_kernels\n"
  ".section .note.GNU-stack,\"\",@progbits\n")
file(WRITE ${FOLDER}/dispatch.s "${text}")
run(${COMPILER} -c ${FOLDER}/dispatch.s -o ${FOLDER}/dispatch.o)

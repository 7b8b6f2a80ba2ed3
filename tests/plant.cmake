# The test of the test: a source with one text changed, made at configure time from the source as it is.
# A text that is not there exactly once ends the build, so a planted bug cannot fade away unseen.
#
# Sets `made` to the path of the changed file; it is linked before the libraries, which then do not need their own.
function(sf_plant name source old new made)
  set(from ${CMAKE_SOURCE_DIR}/${source})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${from})
  file(READ ${from} text)
  string(FIND "${text}" "${old}" first)
  string(FIND "${text}" "${old}" last REVERSE)
  if(first EQUAL -1 OR NOT first EQUAL last)
    message(FATAL_ERROR "mutant ${name}: its text is not exactly once in ${source}; "
                        "move the mutant with the code")
  endif()
  string(REPLACE "${old}" "${new}" text "${text}")
  get_filename_component(file ${source} NAME)
  set(path ${CMAKE_CURRENT_BINARY_DIR}/mutants/${name}/${file})
  file(GENERATE OUTPUT ${path} CONTENT "${text}")
  set(${made} ${path} PARENT_SCOPE)
endfunction()

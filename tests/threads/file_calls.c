/* The same scripts without a recovery: schedules alone. */
#define crashcut_recover show_files
#include "file_script.c"

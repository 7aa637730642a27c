/* GLib: g_file_set_contents(), and "durable": g_file_set_contents_full() with G_FILE_SET_CONTENTS_DURABLE. */
#include <glib.h>

#include "driver.h"

int main(int argc, char** argv) {
  const char* verb = argc > 1 ? argv[1] : "";
  const char* option = argc > 2 ? argv[2] : "";
  if (strcmp(verb, "look") == 0) {
    char* text = NULL;
    gsize size = 0;
    if (!g_file_get_contents("notes.txt", &text, &size, NULL))
      puts("missing");
    else if (size == 0)
      puts("empty");
    else if (memchr(text, 0, size))
      puts("NULs");
    else
      puts(strcmp(text, value_of("old")) == 0 ? "old" : strcmp(text, value_of("new")) == 0 ? "new" : "something else");
    return 0;
  }
  const char* version = strcmp(verb, "run") == 0 ? "new" : "old";
  const GFileSetContentsFlags flags = strcmp(option, "durable") == 0
                                          ? G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_DURABLE
                                          : G_FILE_SET_CONTENTS_CONSISTENT | G_FILE_SET_CONTENTS_ONLY_EXISTING;
  if (!g_file_set_contents_full("notes.txt", value_of(version), -1, flags, 0644, NULL)) fail("write", "failed");
  if (strcmp(verb, "run") == 0) crashcut_mark("saved");
  return 0;
}

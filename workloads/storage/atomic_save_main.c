/* The atomic-save library at work: forms right, in-place, rename-only, no-directory-sync. */
#include "atomic_save.h"
#include "storage.h"

static const char kOld[] = "the old notes\n", kNew[] = "the new notes, which are longer\n";

static SaveForm form_of(const char* text) {
  if (strcmp(text, "right") == 0) return kSaveRight;
  if (strcmp(text, "in-place") == 0) return kSaveInPlace;
  if (strcmp(text, "rename-only") == 0) return kSaveRenameOnly;
  if (strcmp(text, "no-directory-sync") != 0) refuse_form(text);
  return kSaveNoDirectorySync;
}

int main(int argc, char** argv) {
  if (is_recovery(argc, argv)) return 0;
  const SaveForm form = form_of(argv[1]);
  must(atomic_save("notes.txt", kOld, strlen(kOld), kSaveRight));
  crashcut_barrier();
  must(atomic_save("notes.txt", kNew, strlen(kNew), form));
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  char text[256];
  const ssize_t length = read_file("notes.txt", text, sizeof text);
  const int is_new = length == (ssize_t)strlen(kNew) && memcmp(text, kNew, strlen(kNew)) == 0;
  const int is_old = length == (ssize_t)strlen(kOld) && memcmp(text, kOld, strlen(kOld)) == 0;
  assert(is_old || is_new);
  assert(is_new || !crashcut_reached("saved"));
}

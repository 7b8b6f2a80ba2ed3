#include "migrator/steps.h"

namespace sf {

Result<std::string> run_step(MoveContext& context, Step step) {
  switch (step) {
    case Step::kFollow:
      return follow(context);
    case Step::kFollowReplicas:
      return follow_replicas(context);
    case Step::kWaitCopied:
      return wait_copied(context);
    case Step::kMakeShimGroup:
      return make_shim_group(context);
    case Step::kAssignToShim:
      return assign_to_shim(context);
    case Step::kReadBackShim:
      return read_back_shim(context);
    case Step::kCutOver:
      return cut_over(context);
    case Step::kVerify:
      return verify_sides(context);
    case Step::kGate:
      return gate_new_group(context);
    case Step::kFinal:
      return make_final(context);
    case Step::kHandBack:
      return hand_back(context);
    case Step::kReadBackTarget:
      return read_back_target(context);
    case Step::kSoak:
      return soak(context);
    case Step::kEndReverse:
      return end_reverse(context);
    case Step::kDeleteCopies:
      return delete_copies(context);
    case Step::kRemoveShim:
      break;
  }
  return remove_shim(context);
}

}  // namespace sf

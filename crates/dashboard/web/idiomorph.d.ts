// The parts of idiomorph that the script uses; the package has no types.
declare module "idiomorph" {
  interface Options {
    morphStyle?: "innerHTML" | "outerHTML";
    restoreFocus?: boolean;
    callbacks?: {
      beforeNodeMorphed?: (node: Node) => boolean;
      beforeAttributeUpdated?: (name: string, node: Element, change: "update" | "remove") => boolean;
    };
  }
  export const Idiomorph: {
    morph(node: Element, content: string, options?: Options): void;
  };
}

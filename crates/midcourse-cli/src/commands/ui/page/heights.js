// @ts-check
// The heights of the rows of a long list, with sums in logarithmic time (a Fenwick tree): where a
// row begins, and which row is at a position.

export class Heights {
  /** @param {(index: number) => number} estimate height of a row that was not measured yet */
  constructor(estimate) {
    this.estimate = estimate;
    this.count = 0;
    this.heights = new Float64Array(0);
    this.tree = new Float64Array(1);
  }

  /** Changes the number of rows. Known heights stay. @param {number} count */
  resize(count) {
    if (count > this.heights.length) {
      const larger = new Float64Array(Math.max(count, Math.ceil(this.heights.length * 1.5)));
      larger.set(this.heights.subarray(0, this.count));
      this.heights = larger;
    }
    for (let index = this.count; index < count; index += 1) this.heights[index] = this.estimate(index);
    this.count = count;
    this.#rebuild();
  }

  /** Forgets all heights. @param {number} count */
  reset(count) {
    this.count = 0;
    this.resize(count);
  }

  #rebuild() {
    const { count, heights } = this;
    const tree = new Float64Array(count + 1);
    for (let index = 1; index <= count; index += 1) {
      tree[index] = (tree[index] ?? 0) + (heights[index - 1] ?? 0);
      const parent = index + (index & -index);
      if (parent <= count) tree[parent] = (tree[parent] ?? 0) + (tree[index] ?? 0);
    }
    this.tree = tree;
  }

  /** @param {number} index @param {number} height @returns {number} by how much the height changed */
  set(index, height) {
    const difference = height - (this.heights[index] ?? 0);
    if (difference === 0) return 0;
    this.heights[index] = height;
    for (let node = index + 1; node <= this.count; node += node & -node) {
      this.tree[node] = (this.tree[node] ?? 0) + difference;
    }
    return difference;
  }

  /** @param {number} index */
  get(index) {
    return this.heights[index] ?? 0;
  }

  /** Where a row begins. @param {number} index */
  top(index) {
    let sum = 0;
    for (let node = Math.min(index, this.count); node > 0; node -= node & -node) sum += this.tree[node] ?? 0;
    return sum;
  }

  total() {
    return this.top(this.count);
  }

  /** The row at a position, the last row if the position is behind the end. @param {number} position */
  at(position) {
    let node = 0;
    let rest = position;
    for (let step = 1 << Math.floor(Math.log2(Math.max(1, this.count))); step > 0; step >>= 1) {
      const next = node + step;
      if (next <= this.count && (this.tree[next] ?? 0) <= rest) {
        node = next;
        rest -= this.tree[next] ?? 0;
      }
    }
    return Math.max(0, Math.min(node, this.count - 1));
  }
}

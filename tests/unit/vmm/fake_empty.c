/* A library with nothing in it. */
int box_fake_nothing(void);
int box_fake_nothing(void)
{
	return 0;
}

/* A library without any symbol. */
int box_fake_nothing(void);
int box_fake_nothing(void)
{
	return 0;
}
